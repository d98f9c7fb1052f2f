"""Hands are told from programs, and what cannot be told is not said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from policies.judging import Forensics
from policies.vocabulary import Finding, Reason
from replay.forensics.inputs import inputs_of
from replay.forensics.spans import Scatter, scatters
from replay.forensics.timing import strongest_beats, timing
from tests.replay.forensics import players
from tests.replay.forensics.players import MINUTE, TICKS_PER_SECOND, Words

SEEDS = range(25)

HONEST: dict[str, Callable[[int], Words]] = {
    "several buttons": players.honest,
    "an even hand": lambda seed: players.honest(seed, spread=0.2),
    "one button": lambda seed: players.honest(seed, buttons=1, ticks=2 * MINUTE),
    "one button, as fast as can be": players.masher,
    "a drummer": lambda seed: players.drummer(seed, ticks=2 * MINUTE),
    "a drummer for half a minute": lambda seed: players.drummer(seed, ticks=1500),
    "a fast drummer": lambda seed: players.drummer(seed, period=15.3),
    "a device of 30 frames a second": lambda seed: players.on_frames(
        players.honest(seed, ticks=2 * MINUTE), 2
    ),
    "a device of 20 frames a second": lambda seed: players.on_frames(
        players.honest(seed, ticks=2 * MINUTE), 3
    ),
    "a stick": players.analog,
    "a short run": lambda seed: players.honest(seed, ticks=300),
    "a short run of a program": lambda seed: players.metronome(seed, ticks=300),
    "nothing pressed": lambda seed: np.zeros(600 + seed, np.uint32),
    "one button held": lambda seed: np.ones(600 + seed, np.uint32),
}

PROGRAMS: dict[str, tuple[Callable[[int], Words], set[Reason]]] = {
    "a metronome": (players.metronome, {Reason.INPUTS_EVEN, Reason.INPUTS_PERIODIC}),
    "a metronome between ticks": (
        lambda seed: players.metronome(seed, period=10.4),
        {Reason.INPUTS_EVEN, Reason.INPUTS_PERIODIC},
    ),
    "a program that acts ten times a second": (
        lambda seed: players.polled(seed, ticks=2 * MINUTE),
        {Reason.INPUTS_PERIODIC},
    ),
    "a program whose presses last a tick": (players.frame_perfect, {Reason.INPUTS_FRAME_PERFECT}),
}


def found(words: Words, limits: Forensics | None = None, *, ticks_per_second: int = 60) -> list[Finding]:
    limits = limits or Forensics()
    return list(timing(inputs_of(words.tobytes(), limits.buttons), ticks_per_second, limits))


@pytest.mark.parametrize("name", HONEST)
def test_a_hand_and_too_little_of_anything_are_not_found(name: str):
    """Of every seed: evenness, beat and length of presses are a hand's, or there is too little to tell."""
    assert [] == [each for seed in SEEDS for each in found(HONEST[name](seed))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_P16_a_program_is_found_by_what_no_hand_does(name: str):
    """Of every seed, and for the reasons that there are; each finding has its evidence."""
    make, reasons = PROGRAMS[name]
    for seed in SEEDS:
        findings = found(make(seed))
        assert reasons == {each.reason for each in findings}
        assert all(each.sample_size >= 40 and "button" in each.detail for each in findings)


def test_a_program_that_imitates_a_hand_is_not_found():
    """What draws its times as a hand would is a hand to us: this is what is not claimed."""
    assert [] == found(players.honest(1))


def test_limits_are_the_boards():
    """A board whose client writes a press down as one tick, or that is played to a beat, says so in its policy."""
    pulses, beats = players.frame_perfect(1), players.metronome(1)
    even = {"interval_variation": 0.0, "press_variation": 0.0, "interval_entropy_bits": 0.0}

    assert [] == found(pulses, Forensics(frame_perfect_share=1.0))
    assert [] == found(beats, Forensics(periodicity=1.0, **even))


def test_bits_that_are_no_buttons_are_not_looked_at():
    """Beside a stick a program goes unseen, unless the policy says which bits are buttons."""
    words = players.metronome(3) | players.analog(3) << np.uint32(8)

    assert [] == found(words)
    assert {Reason.INPUTS_EVEN, Reason.INPUTS_PERIODIC} == {
        each.reason for each in found(words, Forensics(buttons=3))
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_P16_a_program_does_not_hide_behind_other_bits(name: str):
    """Neither bits that the game ignores nor real buttons pressed at random make numbers of buttons that are named."""
    make, reasons = PROGRAMS[name]
    for seed in SEEDS:
        words = make(seed)
        bits = np.random.default_rng(seed).integers(0, 2**9, words.size, dtype=np.uint32)
        real, ignored = bits & np.uint32(0xF8), bits << np.uint32(20)
        assert [] == found(words | real | ignored)
        hidden = found(words | real | ignored, Forensics(buttons=0xFF))
        assert reasons <= {each.reason for each in hidden}


@pytest.mark.parametrize("name", sorted(HONEST.keys() - {"a stick"}))
def test_named_buttons_of_a_hand_are_not_found(name: str):
    """To name the buttons convicts nobody."""
    limits = Forensics(buttons=0xFF)
    assert [] == [each for seed in SEEDS for each in found(HONEST[name](seed), limits)]


def test_the_button_beside_a_stick_can_be_named():
    """An honest hand at a stick and a button, of which the board names the button."""
    limits = Forensics(buttons=1)
    assert [] == [each for seed in SEEDS for each in found(players.analog(seed), limits)]


def test_coarse_ticks_convict_nobody():
    """With ten ticks a second every press lasts a tick or two, and intervals are a few ticks: that is rounding."""
    for seed in SEEDS:
        words = players.honest(seed, ticks=10 * MINUTE)[::6]
        assert [] == found(words, ticks_per_second=10)


def scatter(spans: NDArray[np.int64]) -> Scatter:
    [found] = scatters(spans, np.zeros(spans.size, np.int64), 1)
    return found


def test_variation_leaves_out_pauses():
    """A program that waits now and then is as even as one that does not."""
    even = np.full(50, 12)
    assert 0.0 == scatter(even).variation == scatter(np.append(even, [900, 1200, 400])).variation


@pytest.mark.parametrize("values", [2, 4, 16])
def test_entropy_has_no_bias_to_speak_of(values: int):
    """The estimate from a hundred values of a uniform choice is near its entropy, on average."""
    rng = np.random.default_rng(values)
    estimates = [scatter(1 + rng.integers(values, size=100)).entropy_bits for _ in range(200)]

    assert abs(np.mean(estimates) - np.log2(values)) < 0.02


def test_a_beat_between_two_frequencies_is_seen():
    """Presses every 100 ms in a run whose length is no multiple of that."""
    [(strength, hz)] = strongest_beats([np.arange(0, 1237, 6)], 1237, TICKS_PER_SECOND, 20.0)

    assert strength > 0.9
    assert abs(hz - 10) < 0.1
