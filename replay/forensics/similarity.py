"""Compares two recordings: how well the inputs of one fit into the other, wherever they were moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policies.judging import Forensics
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics.inputs import Button, Inputs
from replay.forensics.shingles import (
    Hashes,
    resemblance,
    shingles_of,
    shingles_of_buttons,
    shingles_of_bytes,
)
from replay.forensics.spans import ButtonScatter, scatter_of, scatter_of_buttons
from replay.forensics.toggles import TOGETHER, toggles_of
from replay.recording import Recording

PIECES: Final = 8
PIECE_TICKS: Final = 240
"""A run is compared in at most PIECES pieces of at least so many ticks, and each may have moved separately.

Inserted or removed ticks shift everything after them, so one shift for the whole run would not fit.
"""

COMPARED_TICKS: Final = 32_768
"""How much of a run is compared, which bounds the cost: nine minutes at 60 ticks a second."""

MULTIPLIED: Final = 1 << 20
"""Samples of some buttons whose spectra are multiplied at once: 4 MiB, and as much for the products."""

Signals = NDArray[np.float32]


@dataclass(frozen=True)
class ComparableRecording:
    """A recording to be compared: its bytes, and what was decoded; `inputs` are None in a foreign format."""

    recording: bytes
    inputs: Inputs | None
    played: Recording | None = None

    @cached_property
    def shingles(self) -> Hashes:
        """Return the shingles that identify it."""
        return shingles_of_bytes(self.recording) if self.inputs is None else shingles_of(self.inputs)

    @cached_property
    def scatter(self) -> Sequence[ButtonScatter]:
        """Return how the presses of each button scatter; nothing if its words are not buttons."""
        has_buttons = self.inputs is not None and not self.inputs.is_analog
        return scatter_of_buttons(self.inputs) if self.inputs and has_buttons else ()


def read_together(recordings: Sequence[ComparableRecording]) -> None:
    """Find buttons, shingles and scatter of recordings at once, which each would else find when asked.

    A recording with more than TOGETHER toggles is left to be asked.
    """
    group: list[tuple[ComparableRecording, Inputs]] = []
    size = 0
    for each in recordings:
        if each.inputs is None or each.inputs.is_analog or (count := each.inputs.toggle_count) > TOGETHER:
            continue
        if size + count > TOGETHER:
            _read_group(group)
            group, size = [], 0
        group.append((each, each.inputs))
        size += count
    _read_group(group)


def _read_group(group: Sequence[tuple[ComparableRecording, Inputs]]) -> None:
    inputs = [each for _, each in group]
    toggles = toggles_of(inputs)
    buttons: list[list[Button]] = [[] for _ in inputs]
    scatter: list[list[ButtonScatter]] = [[] for _ in inputs]
    for (owner, button), of_button in zip(toggles.buttons(), scatter_of(toggles), strict=True):
        buttons[owner].append(button)
        scatter[owner].append(of_button)
    shingles = shingles_of_buttons(toggles, len(group))
    for (recording, _), *found in zip(group, buttons, scatter, shingles, strict=True):
        # This is where `cached_property` looks.
        vars(recording.inputs)["buttons"], vars(recording)["scatter"], vars(recording)["shingles"] = found


def similarity(
    ours: ComparableRecording, others: Sequence[tuple[str, ComparableRecording]], limits: Forensics
) -> Iterator[Finding]:
    """Find other submissions (by id) whose recording is nearly the same, the nearest first."""
    if ours.shingles.size < limits.minimum_shingles:
        return
    fits = sorted(((_fit(ours, theirs), name) for name, theirs in others), reverse=True)
    limit = limits.resemblance if ours.inputs is None else limits.correlation
    alike = [(fit, name) for fit, name in fits if fit > limit]
    if alike:
        what = "shingles of the recording" if ours.inputs is None else "inputs, moved to where they fit best"
        nearest = dict(others)[alike[0][1]]
        is_same = _are_same(ours, nearest)
        yield Finding(
            Reason.RECORDING_SIMILAR,
            round(alike[0][0], 3),
            Expected(at_most=limit, unit=f"agreement of the {what}"),
            int(ours.shingles.size),
            {"resemblance": 1.0 if is_same else round(resemblance(ours.shingles, nearest.shingles), 3)},
            others=tuple(name for _, name in alike),
        )


def _fit(ours: ComparableRecording, theirs: ComparableRecording) -> float:
    if _are_same(ours, theirs):
        return 1.0  # by definition; to calculate it costs a millisecond
    if ours.inputs is None or theirs.inputs is None:
        return resemblance(ours.shingles, theirs.shingles)
    return correlation(ours.inputs, theirs.inputs)


def _are_same(ours: ComparableRecording, theirs: ComparableRecording) -> bool:
    """Return whether both are the same bytes in the same kind of format."""
    # A board may have changed its format, and then equal bytes do not mean equal inputs.
    return ours.recording == theirs.recording and (ours.inputs is None) == (theirs.inputs is None)


def correlation(ours: Inputs, theirs: Inputs) -> float:
    """Return the average of how well each piece of our inputs correlates with theirs at its best fit, 0 to 1.

    A piece is weighted by how much happens in it. Buttons that only one side used are ignored, so pressing
    one without effect hides nothing. The correlations at all shifts at once are a product of spectra (the
    cross-correlation theorem: Press et al., "Numerical Recipes", section 13.2).
    """
    bits = sorted({*ours.bits} & {*theirs.bits})
    if not bits:
        return 0.0
    mine, other = _signals(ours, bits), _signals(theirs, bits)
    pieces = _pieces(mine)
    fits, weights = _best_fits(pieces, other)
    return float((fits * weights).sum() / max(1e-9, weights.sum()))


def _signals(inputs: Inputs, bits: Sequence[int]) -> Signals:
    """Return whether each button is down in each tick, less its average."""
    words = inputs.words(COMPARED_TICKS)
    held = ((words >> np.array(bits, np.uint32)[:, np.newaxis]) & 1).astype(np.float32)
    signals: Signals = held - held.mean(axis=1, keepdims=True)
    return signals


def _pieces(signals: Signals) -> NDArray[np.float32]:
    """Return the signals cut into (button, piece, tick), dropping the rest at the end."""
    buttons, ticks = signals.shape
    count = min(PIECES, max(1, ticks // PIECE_TICKS))
    length = ticks // count
    return signals[:, : count * length].reshape(buttons, count, length)


def _best_fits(pieces: NDArray[np.float32], other: Signals) -> tuple[Signals, Signals]:
    """Return each piece's highest correlation with the other's signals at any shift, and its energy."""
    buttons, count, length = pieces.shape
    other = np.pad(other, ((0, 0), (length, length)))
    size = 1 << (other.shape[1] + length - 1).bit_length()
    together = max(1, MULTIPLIED // (count * size))
    products = np.zeros((count, size // 2 + 1), np.complex64)
    for at in range(0, buttons, together):
        ours, theirs = pieces[at : at + together], other[at : at + together, np.newaxis]
        products += (np.fft.rfft(theirs, size) * np.conj(np.fft.rfft(ours, size))).sum(axis=0)
    shifts = other.shape[1] - length + 1
    crossed = np.fft.irfft(products, size)[:, :shifts]
    summed = np.concatenate([[0.0], np.cumsum((other.astype(np.float64) ** 2).sum(axis=0))])
    there = summed[length:] - summed[:-length]
    here = (pieces**2).sum(axis=(0, 2))
    # Where little happens in the other recording, little can agree by chance: its energy counts as at least a
    # quarter of the piece's.
    energies = np.sqrt(here[:, np.newaxis] * np.maximum(there, here[:, np.newaxis] / 4) + 1e-12)
    return (crossed / energies).max(axis=1).clip(0, 1).astype(np.float32), here
