"""Checks whether presses are too dense for the time that was played, as after a game was slowed down.

A player at half speed has twice the time to react, and the recording, which counts ticks, shows a hand twice
as fast. A finger taps 5 to 7 times a second, a trained one 10 to 12 for a few seconds (norms of
finger-tapping tests: Ruff and Parker, "Gender- and age-specific changes in motor speed and eye-hand
coordination in adults", Perceptual and Motor Skills 76, 1993). Just such steering revealed slowed runs of a
racing game (donadigo, "Trackmania cheating investigation", 2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from policies.judging import Forensics
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics.inputs import Inputs, Ticks

DENSE_S: Final = 5
"""The span over which density reveals slow motion: longer than a burst of any hand."""


def input_rate(inputs: Inputs, ticks_per_second: int, limits: Forensics) -> Iterator[Finding]:
    """Find a button that was pressed more often within a second of play than a hand can."""
    if inputs.is_analog:
        return
    rates = [(most_within(button.presses, ticks_per_second), button) for button in inputs.buttons]
    rate, button = max(rates, key=lambda pair: pair[0], default=(0, None))
    if button and rate > limits.presses_per_second:
        expected = Expected(
            at_most=limits.presses_per_second, unit="presses of one button in a second of play"
        )
        yield Finding(Reason.INPUTS_DENSE, rate, expected, int(button.presses.size), {"button": button.bit})


def slow_motion_inputs(
    inputs: Inputs, ticks_per_second: int, elapsed_s: float, limits: Forensics
) -> Iterator[Finding]:
    """Find a dense run that took much longer (`elapsed_s` since its ticket) than it lasted."""
    # Slowness alone says little: a player who reads the rules before the first press is slow too.
    slowness = elapsed_s * ticks_per_second / max(1, inputs.ticks)
    if (
        inputs.is_analog
        or slowness < limits.slow_motion_ratio
        or inputs.presses.size < limits.minimum_presses
    ):
        return
    rate = most_within(inputs.presses, DENSE_S * ticks_per_second) / DENSE_S
    if rate > limits.slow_motion_presses_per_second:
        unit = f"presses a second, over {DENSE_S} s of play"
        expected = Expected(at_most=limits.slow_motion_presses_per_second, unit=unit)
        detail = {"slowness": round(slowness, 2), "presses_per_real_second": round(rate / slowness, 2)}
        yield Finding(Reason.INPUTS_SLOWED, rate, expected, int(inputs.presses.size), detail)


def most_within(presses: Ticks, ticks: int) -> int:
    """Return the most presses (in order) within any span of so many ticks."""
    ends = np.searchsorted(presses, presses + ticks)
    return int((ends - np.arange(presses.size)).max(initial=0))
