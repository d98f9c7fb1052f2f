"""Recordings: what encoders make, what they refuse to make, and what decoders refuse to read."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

Runs = Sequence[tuple[int, int]]

_U32: Final = 2**32 - 1
_U64: Final = 2**64 - 1
_MAGIC: Final = b"SGR1"


def leb128(number: int, size: int = 0) -> bytes:
    """Return an unsigned LEB128, of `size` bytes at least."""
    septets = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 7 * size, 1), 7)]
    return bytes(septet | 0x80 for septet in septets[:-1]) + bytes(septets[-1:])


def container(ticks: int, interval: int, runs: Runs, hashes: Sequence[int] = ()) -> bytes:
    """Return a container that says just this, whether or not it fits together."""
    numbers = [ticks, interval, len(runs), *(number for run in runs for number in run)]
    return _MAGIC + b"".join(map(leb128, numbers)) + b"".join(value.to_bytes(8, "little") for value in hashes)


_VALID: Final[tuple[tuple[str, str, Runs, int, Sequence[int]], ...]] = (
    ("one tick, no checkpoints", "the shortest", [(1, 0)], 0, []),
    ("one tick, one checkpoint", "the last tick has one too", [(1, 7)], 1, [1]),
    ("two runs and one checkpoint", "docs/reference/recording.md", [(3, 0), (2, 2)], 4, [0x0123456789ABCDEF]),
    ("the largest word", "docs/reference/recording.md", [(200, 1), (100, _U32)], 150, [0, _U64]),
    ("words of two bytes", "127, 128 and 16384", [(2, 128), (1, 127), (1, 16384)], 2, [1, 2**63]),
    *(
        (f"word {word}", "an edge of a varint", [(1, word)], 0, [])
        for word in (127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31, _U32)
    ),
    *(
        (f"{ticks} ticks of one word", "an edge of a varint", [(ticks, 5)], 0, [])
        for ticks in (127, 128, 16383, 16384)
    ),
    ("a word that changes every tick", "as many runs as ticks", [(1, n % 2) for n in range(200)], 0, []),
    ("an interval longer than the run", "no checkpoint is due", [(9, 1)], 10, []),
    ("an interval of the whole run", "one is due at its last tick", [(10, 1)], 10, [0xFF]),
    ("a last stretch without a checkpoint", "the quotient is rounded down", [(19, 1)], 10, [0xFF00]),
    ("a checkpoint every tick", "the shortest interval", [(2, 0), (1, 1)], 1, [0, 1, _U64]),
    ("an interval of two bytes", "300", [(600, 3)], 300, [2**32, 2**32 - 1]),
    ("the largest interval", "32 bits", [(1, 1)], _U32, []),
    ("hashes with zero bytes", "lowest byte first, always eight", [(4, 1)], 2, [1 << 56, 255]),
    ("a word that comes again", "runs are neighbours only", [(1, 1), (1, 2), (1, 1)], 0, []),
    ("neighbours of the same word", "they become one run", [(3, 1), (2, 1), (1, 2), (4, 2)], 5, [8, 9]),
)

_UNENCODABLE: Final[tuple[tuple[str, str, Runs, int, Sequence[str]], ...]] = (
    ("no ticks", "a run has one at least", [], 0, []),
    ("a word of 33 bits", "words are 0 to 2^32 - 1", [(1, 2**32)], 0, []),
    ("a negative word", "words are 0 to 2^32 - 1", [(1, -1)], 0, []),
    ("a negative interval", "0 or more", [(1, 1)], -1, []),
    ("a checkpoint is missing", "one for each interval that was played", [(20, 1)], 10, ["1"]),
    ("no checkpoints", "one for each interval that was played", [(20, 1)], 10, []),
    ("a checkpoint too many", "one for each interval that was played", [(20, 1)], 10, ["1", "2", "3"]),
    ("a checkpoint without an interval", "0 means none", [(20, 1)], 0, ["1"]),
    ("a checkpoint before the first interval ends", "none is due", [(9, 1)], 10, ["1"]),
    ("a hash of 65 bits", "hashes are 0 to 2^64 - 1", [(10, 1)], 10, ["10000000000000000"]),
)

_GOOD: Final = container(5, 4, [(3, 0), (2, 2)], [1])


def valid() -> list[dict[str, Any]]:
    """Return plays with the bytes that they give."""
    return [
        {
            "name": name,
            "why": why,
            "inputs": [list(run) for run in runs],
            "checkpoint_ticks": interval,
            "checkpoints": [f"{value:016x}" for value in hashes],
            "ticks": sum(length for length, _ in runs),
            "recording": (
                made := container(sum(run[0] for run in runs), interval, _merged(runs), hashes)
            ).hex(),
            "digest": f"sha256:{sha256(made).hexdigest()}",
        }
        for name, why, runs, interval, hashes in _VALID
    ]


def unencodable() -> list[dict[str, Any]]:
    """Return plays of which no recording can be made."""
    return [
        {
            "name": name,
            "why": why,
            "inputs": [list(run) for run in runs],
            "checkpoint_ticks": interval,
            "checkpoints": list(hashes),
        }
        for name, why, runs, interval, hashes in _UNENCODABLE
    ]


def malformed() -> list[dict[str, Any]]:
    """Return bytes that are no recording, for a board of at most 1000 ticks."""
    told: tuple[tuple[str, str, bytes], ...] = (
        ("no bytes", "the magic is missing", b""),
        ("the magic alone", "it ends too early", _MAGIC),
        ("half of the magic", "the magic is wrong", b"SG"),
        ("another version", "the magic is wrong", b"SGR2" + _GOOD[4:]),
        ("lower-case magic", "the magic is wrong", _GOOD.lower()[:4] + _GOOD[4:]),
        ("a byte before the magic", "the magic is wrong", b"\0" + _GOOD),
        ("cut after the ticks", "it ends too early", _GOOD[:5]),
        ("cut after the runs' number", "it ends too early", _GOOD[:7]),
        ("cut inside a run", "it ends too early", _GOOD[:8]),
        ("cut inside the checkpoint", "it ends too early", _GOOD[:-1]),
        ("without its checkpoint", "it ends too early", _GOOD[:-8]),
        ("a byte after the end", "bytes follow the last checkpoint", _GOOD + b"\0"),
        ("a checkpoint too many", "bytes follow the last checkpoint", _GOOD + bytes(8)),
        ("a checkpoint without an interval", "bytes follow", container(5, 0, [(5, 1)], [1])),
        ("no ticks", "`ticks` is 0", container(0, 0, [(0, 0)])),
        ("no ticks and no runs", "`ticks` is 0", container(0, 0, [])),
        ("1001 ticks", "more than the board allows", container(1001, 0, [(1001, 1)])),
        ("four billion ticks", "more than the board allows", container(_U32, 0, [(_U32, 1)])),
        ("no runs", "`runs` is 0", container(5, 0, [])),
        ("more runs than ticks", "`runs` is more than `ticks`", container(1, 0, [(1, 1), (1, 2)])),
        (
            "four billion runs",
            "a count beyond the bytes",
            _MAGIC + leb128(5) + leb128(0) + leb128(_U32) + b"\5\1",
        ),
        ("runs that are announced", "fewer come", _MAGIC + b"\5\0\3" + b"\3\1\2\2"),
        ("an empty run", "an input run has length 0", container(5, 0, [(5, 1), (0, 2)])),
        ("runs that are too short", "the lengths do not sum to `ticks`", container(5, 0, [(2, 1), (2, 2)])),
        ("runs that are too long", "the lengths do not sum to `ticks`", container(5, 0, [(3, 1), (3, 2)])),
        ("lengths that overflow", "32 bits would sum to 5", container(5, 0, [(_U32, 1), (6, 2)])),
        ("neighbours of the same word", "they are one run", container(5, 0, [(3, 1), (2, 1)])),
        ("ticks in two bytes", "a varint longer than its shortest form", _MAGIC + b"\x85\0\0\1\5\1"),
        ("an interval in two bytes", "the same", _MAGIC + b"\5\x80\0\1\5\1"),
        ("runs in two bytes", "the same", _MAGIC + b"\5\0\x81\0\5\1"),
        ("a length in two bytes", "the same", _MAGIC + b"\5\0\1\x85\0\1"),
        ("a word in two bytes", "the same", _MAGIC + b"\5\0\1\5\x81\0"),
        ("a word in five bytes", "the same", _MAGIC + b"\5\0\1\5" + leb128(1, 5)),
        ("a word of 33 bits", "too large for its field", container(5, 0, [(5, 2**32)])),
        ("a word of 35 bits", "too large for its field", container(5, 0, [(5, 2**35 - 1)])),
        ("a word of six bytes", "too large for its field", container(5, 0, [(5, 2**35)])),
        ("ticks of 64 bits", "too large for its field", container(2**64 + 5, 0, [(5, 1)])),
        ("a varint without an end", "it ends too early", _MAGIC + b"\x85\x80\x80\x80"),
        ("text", "the magic is wrong", b'{"inputs": []}'),
    )
    return [
        {"name": name, "why": why, "maximum_ticks": 1000, "recording": data.hex()} for name, why, data in told
    ]


def _merged(runs: Runs) -> Runs:
    merged: list[tuple[int, int]] = []
    for length, word in runs:
        if merged and merged[-1][1] == word:
            merged[-1] = (merged[-1][0] + length, word)
        else:
            merged.append((length, word))
    return merged
