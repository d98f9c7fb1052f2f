"""Identifies recordings by shingles, and by the bands of their MinHash, which an index can find.

A shingle is a short piece of what a player did. Recordings that share most of their shingles are copies with
small changes (Broder, "On the resemblance and containment of documents", 1997). An index of all shingles
would be too large, so it holds BANDS numbers of each recording. Two recordings of resemblance s share at
least one with a probability of 1 - (1 - s^ROWS)^BANDS, which passes 1/2 near (1/BANDS)^(1/ROWS) = 0.35
(Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", section 3.4).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from replay.forensics.inputs import Button, Inputs

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

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)


def shingles_of(inputs: Inputs) -> Hashes:
    """Return the shingles of what was pressed and when, sorted, each once.

    Each button is taken alone, and only gaps count. So it changes nothing if a run begins later, its words
    are split into other runs, or another button is pressed in between. If the words are numbers, the shingles
    are of their values, at any time.
    """
    if inputs.is_analog:
        return _smallest(_mixed_rows(inputs.reached.astype(np.uint64), GAPS))
    hashes = [_of_button(button) for button in inputs.buttons]
    return _smallest(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)


def shingles_of_bytes(recording: bytes) -> Hashes:
    """Return the shingles of a recording in a foreign format, at every offset."""
    return _smallest(_mixed_rows(np.frombuffer(recording, np.uint8).astype(np.uint64), RAW_BYTES))


def bands_of(shingles: Hashes) -> list[int]:
    """Return the numbers (signed, 64 bits) that index a recording with these shingles, if there are any."""
    if not shingles.size:
        return []
    functions = _mixed(np.arange(1, BANDS * ROWS + 1, dtype=np.uint64) + np.uint64(SEED << 32))
    signature = _mixed(shingles[np.newaxis, :] ^ functions[:, np.newaxis]).min(axis=1)
    rows = signature.reshape(BANDS, ROWS)
    bands = np.arange(BANDS, dtype=np.uint64)
    for row in rows.T:
        bands = _mixed(bands * _GOLDEN + row)
    return [int(band) for band in bands.view(np.int64)]


def resemblance(ours: Hashes, theirs: Hashes) -> float:
    """Return the share of all shingles that both have, 0 to 1: the Jaccard index."""
    both = np.intersect1d(ours, theirs, assume_unique=True).size
    return both / max(1, ours.size + theirs.size - both)


def _of_button(button: Button) -> Hashes:
    gaps = np.diff(button.toggles)
    if gaps.size < GAPS:
        return np.empty(0, np.uint64)
    # A run has less than 2^32 ticks, so steps are below 128 and fit into seven bits.
    steps = np.floor(STEPS_PER_OCTAVE * np.log2(gaps)).astype(np.uint64)
    packed = np.uint64(button.bit) << np.uint64(1) | (np.arange(steps.size - GAPS + 1) & 1).astype(np.uint64)
    for step in sliding_window_view(steps, GAPS).T:
        packed = packed << np.uint64(7) | step
    return _mixed(packed)


def _mixed_rows(values: Hashes, width: int) -> Hashes:
    """Return a hash of every `width` consecutive values."""
    if values.size < width:
        return np.empty(0, np.uint64)
    hashes = np.zeros(values.size - width + 1, np.uint64)
    for value in sliding_window_view(values, width).T:
        hashes = _mixed(hashes * _GOLDEN + value)
    return hashes


def _smallest(hashes: Hashes) -> Hashes:
    return np.unique(hashes)[:MOST_SHINGLES]


def _mixed(values: Hashes) -> Hashes:
    """Return values through a bijection of 64 bits: SplitMix64's finalizer (Steele, Lea and Flood, 2014)."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
