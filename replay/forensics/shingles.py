"""Identifies recordings by shingles, and by the bands of their MinHash, which an index can find.

A shingle is a short piece of what a player did. Recordings that share most of their shingles are copies with
small changes (Broder, "On the resemblance and containment of documents", 1997). An index of all shingles
would be too large, so it holds BANDS numbers of each recording. Two recordings of resemblance s share at
least one with a probability of 1 - (1 - s^ROWS)^BANDS, which passes 1/2 near (1/BANDS)^(1/ROWS) = 0.35
(Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from replay.forensics.inputs import Inputs
from replay.forensics.toggles import Toggles, parts_of

Hashes = NDArray[np.uint64]

GAPS: Final = 4
"""Gaps, or words, in one shingle. More make chance matches rarer, but let each edit break more shingles."""

STEPS_PER_OCTAVE: Final = 4
"""Resolution of gaps: exact up to six ticks, and a fifth of their length beyond."""

RAW_BYTES: Final = 8
"""Bytes in one shingle of a recording in another format."""

MOST_SHINGLES: Final = 4096
"""Larger sets keep only this many smallest hashes, which bounds the work and preserves resemblance."""

BANDS: Final = 24
ROWS: Final = 3
SEED: Final = 1
"""Raised with any change to bands, or old rows of the index would be compared with new ones."""

NO_SHINGLES: Final[Hashes] = np.empty(0, np.uint64)

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


def shingles_of(inputs: Inputs) -> Hashes:
    """Return the shingles of what was pressed and when, sorted, each once.

    Each button is taken alone, and only gaps count. So it changes nothing if a run begins later, its words
    are split into other runs, or another button is pressed in between. If the words are numbers, the shingles
    are of their values, at any time.
    """
    if inputs.is_analog:
        return _smallest(_mixed_rows(inputs.reached.astype(np.uint64), GAPS))
    return _smallest(np.concatenate([shingles_of_buttons(part, 1)[0] for part in parts_of(inputs)]))


def shingles_of_buttons(toggles: Toggles, recordings: int) -> list[Hashes]:
    """Return the shingles of each of the recordings, whose words are buttons."""
    if toggles.ticks.size <= GAPS:
        return [NO_SHINGLES] * recordings
    gaps = np.diff(toggles.ticks)
    # A run has less than 2^32 ticks, so steps are below 128 and fit into seven bits.
    steps = np.floor(STEPS_PER_OCTAVE * np.log2(gaps.clip(1))).astype(np.uint64)
    button = np.arange(toggles.bits.size).repeat(np.diff(toggles.starts))
    windows = np.flatnonzero(button[:-GAPS] == button[GAPS:])
    button = button[windows]
    parities = (windows - toggles.starts[button]) & 1
    packed = (toggles.bits[button] << 1 | parities).astype(np.uint64)
    for step in range(GAPS):
        packed = packed << np.uint64(7) | steps[windows + step]
    hashes, ends = _mixed(packed), np.searchsorted(toggles.owners[button], np.arange(1, recordings))
    return [_smallest(each) for each in np.split(hashes, ends)]


def shingles_of_bytes(recording: bytes) -> Hashes:
    """Return the shingles of a recording in a foreign format, at every offset."""
    return _smallest(_mixed_rows(np.frombuffer(recording, np.uint8).astype(np.uint64), RAW_BYTES))


def bands_of(shingles: Hashes) -> list[int]:
    """Return the numbers (signed, 64 bits) that index a recording with these shingles, if there are any."""
    return bands_of_all([shingles])[0]


def bands_of_all(recordings: Sequence[Hashes]) -> list[list[int]]:
    """Return the bands of each of the recordings, by their shingles."""
    sizes = np.array([shingles.size for shingles in recordings])
    if not sizes.any():
        return [[] for _ in recordings]
    rows = _signatures(np.concatenate(recordings), sizes[sizes > 0]).reshape(-1, BANDS, ROWS)
    bands = np.broadcast_to(np.arange(BANDS, dtype=np.uint64), rows.shape[:2])
    for row in range(ROWS):
        bands = _mixed(bands * _GOLDEN + rows[:, :, row])
    each = iter(bands.view(np.int64).tolist())
    return [next(each) if size else [] for size in sizes]


def _signatures(shingles: Hashes, sizes: NDArray[np.int64]) -> Hashes:
    """Return the MinHash of each recording, of `sizes` shingles one after another: a row of BANDS * ROWS."""
    functions = _mixed(np.arange(1, BANDS * ROWS + 1, dtype=np.uint64) + np.uint64(SEED << 32))
    begins = np.cumsum(sizes) - sizes
    signatures = np.empty((functions.size, sizes.size), np.uint64)
    hashes, room = np.empty_like(shingles), np.empty_like(shingles)  # new memory costs more than mixing
    for function, signature in zip(functions, signatures, strict=True):
        np.bitwise_xor(shingles, function, out=hashes)
        _mix(hashes, room)
        np.minimum.reduceat(hashes, begins, out=signature)
    return np.ascontiguousarray(signatures.T)


def resemblance(ours: Hashes, theirs: Hashes) -> float:
    """Return the share of all shingles that both have, 0 to 1: the Jaccard index."""
    both = np.intersect1d(ours, theirs, assume_unique=True).size
    return both / max(1, ours.size + theirs.size - both)


def _mixed_rows(values: Hashes, width: int) -> Hashes:
    """Return a hash of every `width` consecutive values."""
    if values.size < width:
        return np.empty(0, np.uint64)
    hashes = np.zeros(values.size - width + 1, np.uint64)
    for value in sliding_window_view(values, width).T:
        hashes = _mixed(hashes * _GOLDEN + value)
    return hashes


def _smallest(hashes: Hashes) -> Hashes:
    """Return the smallest of the hashes, sorted, each once."""
    ordered = np.sort(hashes)
    is_first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first][:MOST_SHINGLES]


def _mixed(values: Hashes) -> Hashes:
    """Return values through a bijection of 64 bits: SplitMix64's finalizer (Steele, Lea and Flood, 2014)."""
    values = values.copy()
    _mix(values, np.empty_like(values))
    return values


def _mix(values: Hashes, room: Hashes) -> None:
    """Put values through that bijection in place; `room` is of the same shape."""
    values += _GOLDEN
    values ^= np.right_shift(values, np.uint64(30), out=room)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= np.right_shift(values, np.uint64(27), out=room)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= np.right_shift(values, np.uint64(31), out=room)
