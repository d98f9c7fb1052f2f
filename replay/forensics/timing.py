"""Checks whether a hand could have pressed the buttons so: evenness, beat, and presses that are too short.

A hand is never even. Tapping along with a beat, the most even thing that hands do, scatters by about 4 % of
the interval after years of practice (Repp, "Sensorimotor synchronization: A review of the tapping
literature", Psychonomic Bulletin & Review 12, 2005); timer and muscle each add their variance (Wing and
Kristofferson, "Response delays and the timing of discrete motor responses", Perception & Psychophysics 14,
1973). Other presses scatter by tens of percent, skewed to the right: 136 million keystrokes came 239 ms apart
on average, with a standard deviation of 112 ms between people, and keys were down for 116 ms (Dhakal, Feit,
Kristensson and Oulasvirta, "Observations on Typing from 136 Million Keystrokes", CHI 2018). A program without
deliberate noise does not scatter at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policies.judging import Forensics
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics.inputs import Button, Inputs, Ticks
from replay.forensics.spans import ButtonScatter, Scatter, scatter_of_buttons

COARSE_TICKS: Final = 4
"""Shorter spans than this are mostly rounding: a scatter of 10 % is then below a tick."""

SLOWEST_BEAT_HZ: Final = 1.0
"""Slower beats are not searched: one half of a run with denser presses would be such a beat."""

BEAT_PRESSES: Final = 100
"""Fewer presses may keep to a beat in a trained hand's mind: a scatter of 4 % has not yet added up to a
phase."""

BEAT_TICKS: Final = 65_536
"""How much of a run is searched for a beat, which bounds the cost: 18 minutes at 60 ticks a second."""


class ButtonMeasurement(NamedTuple):
    """A measurement of presses: value, sample size, and the button's bit (-1 for all buttons together)."""

    value: float
    sample_size: int
    bit: int


def timing(
    inputs: Inputs,
    ticks_per_second: int,
    limits: Forensics,
    scatter: Sequence[ButtonScatter] | None = None,
) -> Iterator[Finding]:
    """Find timing of presses that is not a hand's: at most one finding of each kind, for the worst button.

    `scatter` is that of each button, if it was measured already.
    """
    if inputs.is_analog:
        return
    scatter = scatter_of_buttons(inputs) if scatter is None else scatter
    buttons = [button for button in inputs.buttons if button.presses.size >= limits.minimum_presses]
    yield from _too_even(inputs, scatter, limits)
    yield from _on_a_beat(inputs, buttons, ticks_per_second, limits)
    yield from _too_short(buttons, ticks_per_second, limits)


def _too_even(inputs: Inputs, scatter: Sequence[ButtonScatter], limits: Forensics) -> Iterator[Finding]:
    buttons = [
        (button.bit, each)
        for button, each in zip(inputs.buttons, scatter, strict=True)
        if button.presses.size >= limits.minimum_presses
    ]
    intervals = [(bit, each.intervals) for bit, each in buttons if _is_fine(each.intervals)]
    lengths = [(bit, each.lengths) for bit, each in buttons if _is_fine(each.lengths)]
    checks = (
        (_variations(intervals), limits.interval_variation, "variation of the intervals"),
        (_entropies(intervals), limits.interval_entropy_bits, "bits of entropy of the intervals"),
        (_variations(lengths), limits.press_variation, "variation of the presses' lengths"),
    )
    for measurements, minimum, unit in checks:
        worst = min(measurements, default=None)
        if worst and worst.value < minimum:
            yield _finding(Reason.INPUTS_EVEN, worst, Expected(at_least=minimum, unit=unit))


def _is_fine(scatter: Scatter) -> bool:
    """Return whether spans are long enough to compare in ticks."""
    return scatter.middle >= COARSE_TICKS


def _variations(scatters: Sequence[tuple[int, Scatter]]) -> list[ButtonMeasurement]:
    return [ButtonMeasurement(scatter.variation, scatter.size, bit) for bit, scatter in scatters]


def _entropies(scatters: Sequence[tuple[int, Scatter]]) -> list[ButtonMeasurement]:
    return [ButtonMeasurement(scatter.entropy_bits, scatter.size, bit) for bit, scatter in scatters]


def _on_a_beat(
    inputs: Inputs, buttons: Sequence[Button], ticks_per_second: int, limits: Forensics
) -> Iterator[Finding]:
    all_presses = (_distinct(inputs.presses), -1)
    shortened = [
        (ticks[ticks < BEAT_TICKS], bit)
        for ticks, bit in (*((b.presses, b.bit) for b in buttons), all_presses)
    ]
    minimum = max(BEAT_PRESSES, limits.minimum_presses)
    trains = [(train, bit) for train, bit in shortened if train.size >= minimum]
    if not trains:
        return
    beats = strongest_beats(
        [train for train, _ in trains],
        min(inputs.ticks, BEAT_TICKS),
        ticks_per_second,
        limits.slowest_device_hz,
    )
    (strength, beat_hz), (train, bit) = max(zip(beats, trains, strict=True), key=lambda pair: pair[0])
    if strength > limits.periodicity:
        expected = Expected(at_most=limits.periodicity, unit="strength of a beat")
        worst = ButtonMeasurement(strength, int(train.size), bit)
        yield _finding(Reason.INPUTS_PERIODIC, worst, expected, beat_hz=round(beat_hz, 2))


def _distinct(ticks: Ticks) -> Ticks:
    """Return each of these ticks, which are in order, once."""
    is_first = np.ones(ticks.size, np.bool_)
    np.not_equal(ticks[1:], ticks[:-1], out=is_first[1:])
    return ticks[is_first]


def strongest_beats(
    trains: Sequence[Ticks], ticks: int, ticks_per_second: int, below_hz: float
) -> list[tuple[float, float]]:
    """Return how well each train of presses keeps to its strongest beat (0 to 1), and that beat in Hz.

    The strength is the length of the mean vector of the presses' phases (Mardia and Jupp, "Directional
    Statistics", 2000, section 2.3), which is the train's spectrum divided by its presses. It is near 1 for a
    metronome, and for presses at odd times that all fall on one grid, as from a program that acts ten times a
    second. A device makes such a grid too, with its frame rate, so only beats below the slowest device's are
    searched. The spectrum is sampled at twice its resolution, where a peak between two samples loses at most
    10 % (sinc 1/4).
    """
    size = 1 << (2 * ticks - 1).bit_length()
    first = max(1, int(np.ceil(SLOWEST_BEAT_HZ / ticks_per_second * size)))
    below_hz *= 0.95  # peaks have a width, and one at the limit itself is a device's
    last = min(size // 2, int(below_hz / ticks_per_second * size))
    if first >= last:
        return [(0.0, 0.0)] * len(trains)
    signal = np.zeros((len(trains), size), np.float32)
    for row, train in zip(signal, trains, strict=True):
        row[train] = 1
    spectrum = np.abs(np.fft.rfft(signal)[:, first:last])
    peaks = spectrum.argmax(axis=1)
    strengths = spectrum.max(axis=1) / np.maximum(1, signal.sum(axis=1))
    frequencies = (peaks + first) * ticks_per_second / size
    return [(float(strength), float(hz)) for strength, hz in zip(strengths, frequencies, strict=True)]


def _too_short(buttons: Sequence[Button], ticks_per_second: int, limits: Forensics) -> Iterator[Finding]:
    """Find presses that ended within the time that a finger needs to go down and up."""
    longest = int(limits.shortest_press_ms * ticks_per_second / 1000)
    shares = [
        ButtonMeasurement(np.count_nonzero(lengths <= longest) / lengths.size, lengths.size, button.bit)
        for button in buttons
        if (lengths := button.lengths).size
    ]
    if longest and shares and max(shares).value > limits.frame_perfect_share:
        unit = f"of the presses last {longest} ticks or less"
        expected = Expected(at_most=limits.frame_perfect_share, unit=unit)
        yield _finding(
            Reason.INPUTS_FRAME_PERFECT, max(shares), expected, same_tick_share=_same_tick_share(buttons)
        )


def _same_tick_share(buttons: Sequence[Button]) -> float:
    """Return the share of presses in the very tick in which another button is released."""
    presses = np.concatenate([button.presses for button in buttons])
    releases: NDArray[np.int64] = np.concatenate([button.toggles[1::2] for button in buttons])
    return round(float(np.isin(presses, releases).mean()), 3)


def _finding(reason: Reason, worst: ButtonMeasurement, expected: Expected, **detail: float) -> Finding:
    value, sample_size, bit = worst
    return Finding(reason, round(value, 4), expected, sample_size, {"button": bit, **detail})
