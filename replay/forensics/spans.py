"""Measures how spans scatter, between presses and of presses: of many buttons at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from replay.forensics.inputs import Inputs, Ticks
from replay.forensics.toggles import Toggles, parts_of

PAUSES: Final = 0.1
"""The share of longest intervals that is left out. Everybody pauses, and so does a program with nothing to
press."""

_SPAN_BITS: Final = 33
"""A run has less than 2^32 ticks, so a span and the number of its button fit into one number."""


class Scatter(NamedTuple):
    """How a button's spans scatter: their number, the middle one, their variation and entropy (bits)."""

    size: int
    middle: int
    variation: float
    entropy_bits: float


class ButtonScatter(NamedTuple):
    """The scatter of a button's intervals from press to press, and of the lengths of its presses."""

    intervals: Scatter
    lengths: Scatter


def scatter_of_buttons(inputs: Inputs) -> list[ButtonScatter]:
    """Return the scatter of each button of a recording."""
    return [each for part in parts_of(inputs) for each in scatter_of(part)]


def scatter_of(toggles: Toggles) -> list[ButtonScatter]:
    """Return the scatter of each button."""
    buttons = toggles.bits.size
    button = np.arange(buttons).repeat(np.diff(toggles.starts))
    is_press = (np.arange(button.size) - toggles.starts[button]) & 1 == 0
    pressed, presses = button[is_press], toggles.ticks[is_press]
    follows = pressed[1:] == pressed[:-1]
    intervals = scatters(np.diff(presses)[follows], pressed[1:][follows], buttons)
    is_held = is_press[:-1] & (button[1:] == button[:-1])
    lengths = scatters(np.diff(toggles.ticks)[is_held], button[1:][is_held], buttons)
    return list(map(ButtonScatter, intervals, lengths))


def scatters(spans: Ticks, button: Ticks, buttons: int) -> Iterator[Scatter]:
    """Yield the scatter of each button's spans; `button` has the number of the button of each.

    The variation is deviation by mean, without the longest tenth. The entropy is Shannon's: the plug-in
    estimate, corrected for its bias. From N values in m bins, that estimate is too low by (m - 1) / 2N nats
    on average (Miller, "Note on the bias of information estimates", 1955; Paninski, "Estimation of Entropy
    and Mutual Information", Neural Computation 15, 2003).
    """
    ordered = np.sort(button << _SPAN_BITS | spans) & (1 << _SPAN_BITS) - 1
    ends = np.searchsorted(button, np.arange(buttons), side="right").tolist()
    totals, squares = (np.append(0, np.cumsum(each)).tolist() for each in (ordered, ordered * ordered))
    begins = np.flatnonzero((np.diff(ordered, prepend=-1) != 0) | (np.diff(button, prepend=-1) != 0))
    counts = np.diff(begins, append=ordered.size)
    shares = counts / np.bincount(button, minlength=buttons)[button[begins]]
    logarithms, spelled = np.log2(shares), np.searchsorted(begins, ends).tolist()
    begin = first = 0
    for end, last in zip(ends, spelled, strict=True):
        size = end - begin
        if size:
            kept = end - int(size * PAUSES)
            total, square = totals[kept] - totals[begin], squares[kept] - squares[begin]
            variation = math.sqrt((kept - begin) * square - total * total) / total
            bits = -(shares[first:last] @ logarithms[first:last])
            bits += (last - first - 1) / (2 * size * math.log(2))
            yield Scatter(size, int(ordered[begin + size // 2]), variation, float(bits))
        else:
            yield Scatter(0, 0, 0.0, 0.0)
        begin, first = end, last
