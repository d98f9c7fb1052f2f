"""Where claim and replay part: the interval that checkpoints give, both hashes, and the inputs around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.vocabulary import Divergence
from replay.divergence import AROUND_TICKS, INPUT_RUNS, divergence_of
from replay.recording import Recording, pack_inputs
from replay.simulators import Simulation


def recorded(words: Sequence[int], checkpoints: Sequence[int], every: int) -> Recording:
    return Recording(len(words), every, pack_inputs(words), tuple(checkpoints))


def simulated(checkpoints: Sequence[int]) -> Simulation:
    return Simulation(0, True, 0, 0, (), tuple(checkpoints), 0)


def found(words: Sequence[int], claimed: Sequence[int], hashes: Sequence[int], every: int) -> Divergence:
    divergence = divergence_of(recorded(words, claimed, every), simulated(hashes))
    assert divergence is not None
    return divergence


@pytest.mark.parametrize(("index", "interval"), [(0, (0, 10)), (1, (10, 20)), (3, (30, 40))])
def test_the_interval_ends_at_the_first_checkpoint_that_differs(index: int, interval: tuple[int, int]):
    """It begins after the checkpoint before, and holds the hashes of both sides at its end."""
    claimed = [11, 12, 13, 14]
    hashes = claimed[:index] + [each + 100 for each in claimed[index:]]
    divergence = found([0] * 40, claimed, hashes, 10)

    assert interval == (divergence.after_tick, divergence.at_tick)
    assert (claimed[index], hashes[index]) == (divergence.claimed, divergence.simulated)


@pytest.mark.parametrize("hashes", [[11, 12], [11], []])
def test_a_run_that_ended_early_diverges_only_where_both_have_a_checkpoint(hashes: list[int]):
    """What only one side has cannot differ."""
    assert divergence_of(recorded([0] * 20, [11, 12], 10), simulated(hashes)) is None


def test_inputs_are_shown_around_the_interval_as_runs():
    """From a second before it to a second after it, each run with its first tick, cut where the window is."""
    words = [1] * 100 + [2] * 5 + [3] * 195
    divergence = found(words, [0, 0, 0], [0, 1, 1], 100)

    assert (100, 200) == (divergence.after_tick, divergence.at_tick)
    assert [(41, 60, 1), (101, 5, 2), (106, 155, 3)] == [tuple(run) for run in divergence.inputs]
    assert 200 + AROUND_TICKS == sum(divergence.inputs[-1][:2]) - 1


def test_inputs_are_bounded_whatever_was_pressed():
    """A word that changes every tick fills the list, and no more."""
    divergence = found([0, 1] * 50_000, [0], [1], 100_000)

    assert INPUT_RUNS == len(divergence.inputs)
    assert (1, 1, 0) == divergence.inputs[0]


def test_hashes_are_stored_as_sixteen_digits():
    """A number of 64 bits would lose its lowest ones in a reader's JSON."""
    stored = found([7], [1], [2**64 - 1], 1).as_dict()

    assert {
        "after_tick": 0,
        "at_tick": 1,
        "claimed": "0000000000000001",
        "simulated": "f" * 16,
        "inputs": [[1, 1, 7]],
    } == stored


def test_equal_checkpoints_are_no_divergence():
    """Whatever else differs is another mismatch."""
    assert divergence_of(recorded([0], [5], 1), replace(simulated([5]), score=9)) is None
