"""A slowed game shows in inputs that are too dense for the time that was played."""

from __future__ import annotations

import numpy as np
import pytest

from policies.judging import Forensics
from policies.vocabulary import Reason
from replay.forensics.inputs import inputs_of
from replay.forensics.slow_motion import input_rate, most_within, slow_motion_inputs
from tests.replay.forensics import players

SEEDS = range(25)
LIMITS = Forensics()


def of(words: players.Words):
    return inputs_of(words.tobytes(), LIMITS.buttons)


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_P15_a_slowed_run_is_found(factor: float):
    """Half the speed and a quarter: dense presses in a run that took so much longer than it lasted."""
    for seed in SEEDS:
        inputs = of(players.slowed(seed, factor=factor))
        [finding] = slow_motion_inputs(inputs, 60, 60 * factor + 5, LIMITS)
        assert Reason.INPUTS_SLOWED == finding.reason
        assert finding.value > LIMITS.slow_motion_presses_per_second
        assert finding.detail["slowness"] > factor
        assert finding.detail["presses_per_real_second"] < 12


def test_P15_density_and_slowness_say_nothing_alone():
    """A dense run in real time, and an honest one after a long look at the menu, are let be."""
    for seed in SEEDS:
        assert [] == list(slow_motion_inputs(of(players.slowed(seed)), 60, 65, LIMITS))
        assert [] == list(slow_motion_inputs(of(players.honest(seed)), 60, 900, LIMITS))


def test_P15_more_presses_than_a_hand_has_are_found_whatever_the_clock_says():
    """A button at a rate that no finger reaches; the fastest hand is below it."""
    for seed in SEEDS:
        [finding] = input_rate(of(players.metronome(seed, period=3, length=1)), 60, LIMITS)
        assert (Reason.INPUTS_DENSE, 20, 1) == (finding.reason, finding.value, finding.detail["button"])
        assert [] == list(input_rate(of(players.masher(seed, per_second=10)), 60, LIMITS))


@pytest.mark.parametrize(
    "words",
    [players.analog(1), np.zeros(900, np.uint32), np.array([1, 0], np.uint32)],
    ids=["stick", "none", "one"],
)
def test_what_is_no_pressing_has_no_density(words: players.Words):
    """A stick that is never still, a run without inputs, and one press."""
    assert [] == [*input_rate(of(words), 60, LIMITS), *slow_motion_inputs(of(words), 60, 1000, LIMITS)]


def test_the_densest_span_is_found_wherever_it_is():
    """Most presses within any span, which need not begin at a whole second."""
    presses = np.array([0, 50, 100, 101, 102, 159, 161])

    assert [5, 1, 7] == [most_within(presses, span) for span in (62, 1, 162)]
    assert 0 == most_within(np.array([], np.int64), 60)
