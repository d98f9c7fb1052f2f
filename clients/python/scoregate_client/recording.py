"""The recording container, version 1: the inputs of a run as run lengths, and its checkpoint hashes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

MAGIC = b"SGR1"


class Recorder:
    """Records a run while it is played: an input (u32) per tick, a hash (u64) per `checkpoint_ticks`.

    `checkpoint_ticks` is that of the run, 0 for no checkpoints. Raises ValueError for what does not fit.
    """

    def __init__(self, checkpoint_ticks: int = 0) -> None:
        if checkpoint_ticks < 0:
            raise ValueError("checkpoint_ticks is at least 0.")
        self._checkpoint_ticks = checkpoint_ticks
        self._runs: list[tuple[int, int]] = []
        self._checkpoints: list[int] = []
        self.ticks = 0

    @property
    def is_checkpoint_due(self) -> bool:
        """Tell whether the hash after this tick has to be given before the next one."""
        return bool(self._checkpoint_ticks) and self.ticks // self._checkpoint_ticks > len(self._checkpoints)

    def tick(self, word: int) -> bool:
        """Record the input of the next tick, and tell whether a checkpoint is due after it."""
        if self.is_checkpoint_due:
            raise ValueError(f"The checkpoint after tick {self.ticks} is missing.")
        if not 0 <= word < 1 << 32:
            raise ValueError("An input of a recording is 0 to 2^32 - 1.")
        length, last = self._runs[-1] if self._runs else (0, None)
        if last == word:
            self._runs[-1] = (length + 1, word)
        else:
            self._runs.append((1, word))
        self.ticks += 1
        return self.is_checkpoint_due

    def checkpoint(self, state_hash: int) -> None:
        """Record the hash of the state after the last tick."""
        if not self.is_checkpoint_due:
            raise ValueError(f"No checkpoint is due after tick {self.ticks}.")
        if not 0 <= state_hash < 1 << 64:
            raise ValueError("A checkpoint is 0 to 2^64 - 1.")
        self._checkpoints.append(state_hash)

    def finish(self) -> bytes:
        """Return the recording."""
        if not self.ticks or self.is_checkpoint_due:
            raise ValueError("A recording has at least one tick, and all of its checkpoints.")
        numbers = [self.ticks, self._checkpoint_ticks, len(self._runs)]
        numbers += [number for run in self._runs for number in run]
        hashes = b"".join(value.to_bytes(8, "little") for value in self._checkpoints)
        return MAGIC + b"".join(map(_varint, numbers)) + hashes


def encode_recording(
    inputs: Sequence[int], checkpoints: Sequence[int] = (), checkpoint_ticks: int = 0
) -> bytes:
    """Return the canonical bytes of a run: an input (u32) per tick, a hash (u64) per `checkpoint_ticks`.

    `checkpoint_ticks` 0 means no checkpoints. Raises ValueError for a number out of range and for missing
    checkpoints.
    """
    recorder, due = Recorder(checkpoint_ticks), iter(checkpoints)
    expected = len(inputs) // checkpoint_ticks if checkpoint_ticks else 0
    if len(checkpoints) != expected:
        raise ValueError(f"Expected {expected} checkpoints, got {len(checkpoints)}.")
    for word in inputs:
        if recorder.tick(word):
            recorder.checkpoint(next(due))
    return recorder.finish()


def recording_digest(recording: bytes) -> str:
    """Return the digest by which a recording is committed."""
    return f"sha256:{sha256(recording).hexdigest()}"


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
