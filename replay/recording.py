"""The recording container, version 1: a run's inputs, and the state hashes that the client noted on the way.

Equal play gives equal bytes: a container that is not in canonical form is refused, so the SHA-256 of the
bytes identifies the play. The layout, with varint for unsigned LEB128 in its shortest form:

    "SGR1"  ticks varint  checkpoint_ticks varint  runs varint
    runs x {length varint, input varint}      floor(ticks / checkpoint_ticks) x u64 little-endian
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from policies.errors import ScoregateError

MAGIC = b"SGR1"
WORD_LIMIT = 2**32
"""One more than the largest input word, length or interval."""
VARINT_BYTES = 5
"""Bytes of the longest varint of a 32-bit number: ceil(32 / 7)."""
VARINT_BITS = 7
CONTINUES = 0x80
"""The bit of a varint's byte that says that another one follows (LEB128)."""
CHECKPOINT_BYTES = 8

Numbers = NDArray[np.int64]

_VARINT = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")
_pack_word = struct.Struct("<I").pack


class RecordingError(ScoregateError):
    """The bytes are not a recording."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The inputs of one run, ready for a simulator.

    `inputs` holds one little-endian u32 per tick. `checkpoints` holds the 64-bit state hashes after every
    `checkpoint_ticks` ticks; `checkpoint_ticks` is 0 if the client noted none.
    """

    ticks: int
    checkpoint_ticks: int
    inputs: bytes
    checkpoints: tuple[int, ...]


def decode(data: bytes, *, maximum_ticks: int) -> Recording:
    """Return the recording in `data`. Raises RecordingError for anything but one canonical container."""
    # Every length is checked before anything is expanded, so `maximum_ticks` words and the size of `data`
    # bound the memory, whatever `data` claims.
    if not data.startswith(MAGIC):
        raise RecordingError("it does not begin with SGR1")
    ticks, at = _read_varint(data, len(MAGIC), "ticks")
    checkpoint_ticks, at = _read_varint(data, at, "the checkpoint interval")
    runs, at = _read_varint(data, at, "the number of runs")
    if not 1 <= ticks <= maximum_ticks:
        raise RecordingError(f"it has {ticks} ticks where 1 to {maximum_ticks} are allowed")
    if not 1 <= runs <= ticks:
        raise RecordingError(f"it has {runs} runs for {ticks} ticks")
    end = len(data) - CHECKPOINT_BYTES * _checkpoint_count(ticks, checkpoint_ticks)
    if not 2 * runs <= end - at <= 2 * runs * VARINT_BYTES:
        raise RecordingError("its length does not fit its ticks, runs and checkpoints")
    inputs = _expand(_varints(data[at:end]), ticks, runs)
    return Recording(ticks, checkpoint_ticks, inputs, _unpack_checkpoints(data[end:]))


def encode(inputs: bytes, checkpoints: Sequence[int], checkpoint_ticks: int) -> bytes:
    """Return a run's container: `inputs` as one little-endian u32 per tick, `checkpoints` as 64-bit hashes.

    Raises RecordingError if they do not fit together.
    """
    ticks, rest = divmod(len(inputs), 4)
    if rest or not 0 < ticks < WORD_LIMIT:
        raise RecordingError("inputs must be whole 32-bit words, at least one")
    if not 0 <= checkpoint_ticks < WORD_LIMIT:
        raise RecordingError("the checkpoint interval must be a 32-bit number")
    if len(checkpoints) != _checkpoint_count(ticks, checkpoint_ticks):
        raise RecordingError(f"{len(checkpoints)} checkpoints do not fit {ticks} ticks")
    runs = [(sum(1 for _ in same), word) for word, same in groupby(struct.unpack(f"<{ticks}I", inputs))]
    numbers = [ticks, checkpoint_ticks, len(runs), *(number for run in runs for number in run)]
    try:
        hashes = struct.pack(f"<{len(checkpoints)}Q", *checkpoints)
    except struct.error:
        raise RecordingError("a checkpoint must be an unsigned 64-bit number") from None
    return MAGIC + b"".join(map(_varint, numbers)) + hashes


def pack_inputs(words: Iterable[int]) -> bytes:
    """Return input words in the form of `Recording.inputs`. Raises RecordingError outside 0 .. 2^32-1."""
    try:
        return b"".join(map(_pack_word, words))
    except struct.error:
        raise RecordingError("an input word must be an unsigned 32-bit number") from None


def _checkpoint_count(ticks: int, checkpoint_ticks: int) -> int:
    return ticks // checkpoint_ticks if checkpoint_ticks else 0


def _read_varint(data: bytes, at: int, name: str) -> tuple[int, int]:
    """Return the number at offset `at` and the offset after it."""
    match = _VARINT.match(data, at, at + VARINT_BYTES)
    if match is None:
        raise RecordingError(f"{name} is cut short or longer than {VARINT_BYTES} bytes")
    return _number(match[0]), match.end()


def _varints(data: bytes) -> Numbers:
    """Return all numbers in `data`."""
    octets = np.frombuffer(data, np.uint8)
    if octets[-1] >= CONTINUES:
        raise RecordingError("its last run is cut short")
    ends = np.flatnonzero(octets < CONTINUES)
    if ends.size == octets.size:
        return octets.astype(np.int64)
    lengths = np.diff(ends, prepend=-1)
    if lengths.max() > VARINT_BYTES:
        raise RecordingError("a number is larger than 32 bits")
    numbers = np.zeros(ends.size, np.int64)
    for place in range(lengths.max()):  # from each number's last byte, which is its highest
        has_more = lengths > place
        numbers[has_more] = numbers[has_more] << VARINT_BITS | (octets[ends[has_more] - place] & 0x7F)
    if numbers.max() >= WORD_LIMIT:
        raise RecordingError("a number is larger than 32 bits")
    if ((lengths > 1) & (octets[ends] == 0)).any():
        raise RecordingError("a number is not in its shortest form")
    return numbers


def _number(token: bytes) -> int:
    value = sum((byte & 0x7F) << (7 * index) for index, byte in enumerate(token[:VARINT_BYTES]))
    if len(token) > VARINT_BYTES or value >= WORD_LIMIT:
        raise RecordingError("a number is larger than 32 bits")
    if len(token) > 1 and token[-1] == 0:
        raise RecordingError("a number is not in its shortest form")
    return value


def _varint(value: int) -> bytes:
    head = bytearray()
    while value >= CONTINUES:
        head.append(value & 0x7F | CONTINUES)
        value >>= 7
    head.append(value)
    return bytes(head)


def _expand(numbers: Numbers, ticks: int, runs: int) -> bytes:
    """Return the input words of all runs. `numbers` alternates between length and word."""
    if len(numbers) != 2 * runs:
        raise RecordingError(f"it announces {runs} runs and holds {len(numbers) / 2:g}")
    lengths, words = numbers[0::2], numbers[1::2]
    if lengths.min() < 1:
        raise RecordingError("a run is empty")
    if lengths.sum() != ticks:
        raise RecordingError(f"its runs last {lengths.sum()} ticks and it announces {ticks}")
    if (words[1:] == words[:-1]).any():
        raise RecordingError("two runs in a row have the same input")
    return words.astype("<u4").repeat(lengths).tobytes()


def _unpack_checkpoints(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // CHECKPOINT_BYTES}Q", data)
