"""The recording container, version 1: the inputs of a run as run lengths, and its checkpoint hashes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

MAGIC = b"SGR1"


def encode_recording(
    inputs: Sequence[int], checkpoints: Sequence[int] = (), checkpoint_ticks: int = 0
) -> bytes:
    """Return the canonical bytes of a run: an input (u32) per tick, a hash (u64) per `checkpoint_ticks`.

    `checkpoint_ticks` 0 means no checkpoints. Raises ValueError for a number out of range and for missing
    checkpoints.
    """
    if not inputs or not all(0 <= word < 1 << 32 for word in inputs):
        raise ValueError("A recording needs at least one input, and inputs are 0 to 2^32 - 1.")
    if checkpoint_ticks < 0 or not all(0 <= value < 1 << 64 for value in checkpoints):
        raise ValueError("checkpoint_ticks is at least 0, and checkpoints are 0 to 2^64 - 1.")
    expected = len(inputs) // checkpoint_ticks if checkpoint_ticks else 0
    if len(checkpoints) != expected:
        raise ValueError(f"Expected {expected} checkpoints, got {len(checkpoints)}.")
    runs = [(sum(1 for _ in same), word) for word, same in groupby(inputs)]
    numbers = [len(inputs), checkpoint_ticks, len(runs)]
    numbers += [number for run in runs for number in run]
    hashes = b"".join(value.to_bytes(8, "little") for value in checkpoints)
    return MAGIC + b"".join(map(_varint, numbers)) + hashes


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
