"""What a moderator reads of inputs that were looked at: every number, of runs that are worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from policies.judging import Forensics
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import resemblance
from replay.forensics.similarity import ComparableRecording, similarity
from replay.forensics.slow_motion import input_rate, slow_motion_inputs
from replay.forensics.timing import timing
from tests.replay.forensics import players
from tests.replay.forensics.players import Words

LIMITS = Forensics()


def pressed(presses: dict[int, Iterable[tuple[int, int]]], ticks: int) -> Words:
    """The words of a run in which each button, by its bit, is pressed at such ticks for so many."""
    words = np.zeros(ticks, np.uint32)
    for bit, spans in presses.items():
        for begin, length in spans:
            words[begin : begin + length] |= np.uint32(1 << bit)
    return words


def of(words: Words, limits: Forensics = LIMITS) -> Inputs:
    return inputs_of(words.tobytes(), limits.buttons)


def timed(words: Words, **changed: Any) -> list[Finding]:
    limits = Forensics(**changed)
    return list(timing(of(words, limits), 60, limits))


def even(count: int, every: int = 30, length: int = 10) -> list[tuple[int, int]]:
    return [(7 + number * every, length) for number in range(count)]


def scattered(count: int, length: int = 6, seed: int = 1) -> list[tuple[int, int]]:
    """Presses of a hand, as far as their intervals go; each as long as the other, or around it if `length` is 6."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.integers(12, 60, count))
    lengths = rng.integers(4, 10, count) if length == 6 else [length] * count
    return [(int(begin), int(each)) for begin, each in zip(at, lengths, strict=True)]


def test_P16_evenness_is_told_for_the_evenest_button():
    """Of intervals, of their entropy, and of how long presses last: so many, of which button, and what a hand has at least."""
    found = timed(pressed({2: scattered(80), 3: even(60), 6: even(20)}, 6_000))
    assert [
        Finding(
            Reason.INPUTS_EVEN, 0.0, Expected(0.02, None, "variation of the intervals"), 59, {"button": 3}
        ),
        Finding(
            Reason.INPUTS_EVEN,
            0.0,
            Expected(1.0, None, "bits of entropy of the intervals"),
            59,
            {"button": 3},
        ),
        Finding(
            Reason.INPUTS_EVEN,
            0.0,
            Expected(0.05, None, "variation of the presses' lengths"),
            60,
            {"button": 3},
        ),
    ] == found


def test_P16_evenness_at_the_limit_is_a_hands():
    """What is below it is not; a button with fewer presses than the board asks for says nothing."""
    words = pressed({3: even(60)}, 3_000)
    none = {"interval_variation": 0.0, "press_variation": 0.0, "interval_entropy_bits": 0.0}
    assert [] == timed(words, **none)
    assert 3 == len(timed(words, minimum_presses=60))
    assert [] == timed(words, minimum_presses=61)
    spans = (
        "variation of the intervals",
        "bits of entropy of the intervals",
        "variation of the presses' lengths",
    )
    for name, unit in zip(
        ("interval_variation", "interval_entropy_bits", "press_variation"), spans, strict=True
    ):
        [finding] = timed(words, **(none | {name: 0.5}))
        assert Expected(0.5, None, unit) == finding.expected


def test_P16_a_beat_is_told_with_its_frequency():
    """Two a second, or a multiple of it: a train of equal presses is as strong at each."""
    none = {"interval_variation": 0.0, "press_variation": 0.0, "interval_entropy_bits": 0.0}
    [finding] = timed(pressed({3: even(120), 5: scattered(60)}, 4_000), **none)
    assert (Reason.INPUTS_PERIODIC, Expected(None, 0.93, "strength of a beat"), 120, 3) == (
        finding.reason,
        finding.expected,
        finding.sample_size,
        finding.detail["button"],
    )
    assert 0.99 < finding.value <= 1.0
    assert 2 * round(finding.detail["beat_hz"] / 2) == pytest.approx(finding.detail["beat_hz"], abs=0.02)
    assert [] == timed(pressed({3: even(99)}, 4_000), **none)


def test_P16_presses_that_are_too_short_are_told_with_what_else_is_no_hands():
    """A tick at 60 a second is what 20 ms allow; half of all presses come as the other button is let go."""
    first = scattered(80, length=1)
    second = [(begin + 1, 1) for begin, _ in first]
    [finding] = timed(pressed({0: first, 4: second}, 6_000))
    expected = Expected(None, 0.8, "of the presses last 1 ticks or less")
    detail = {"button": 4, "same_tick_share": 0.5}
    assert Finding(Reason.INPUTS_FRAME_PERFECT, 1.0, expected, 80, detail) == finding
    share = pressed({0: [*first[:64], *((begin, 5) for begin, _ in first[64:])]}, 6_000)
    assert [] == timed(share)
    assert [0.8] == [each.value for each in timed(share, frame_perfect_share=0.79)]
    assert [] == timed(share, frame_perfect_share=0.79, shortest_press_ms=16.0)


def test_P15_a_density_is_told_for_the_densest_button():
    """The most within a second of play, and of which button; as many as a hand has is a hand's."""
    words = pressed({1: even(100, every=10, length=2), 9: even(80, every=3, length=1)}, 2_000)
    expected = Expected(None, 16.0, "presses of one button in a second of play")
    assert [Finding(Reason.INPUTS_DENSE, 20, expected, 80, {"button": 9})] == list(
        input_rate(of(words), 60, LIMITS)
    )
    assert [] == list(input_rate(of(words), 60, Forensics(presses_per_second=20.0)))
    assert [10] == [each.value for each in input_rate(of(words), 30, Forensics(presses_per_second=9.0))]


def test_P15_slow_motion_is_told_in_play_and_in_the_players_own_time():
    """Fifteen a second over five seconds of play, in a run of twenty seconds that was open for a minute: five a second."""
    words = pressed({1: even(298, every=4, length=2)}, 1_200)
    expected = Expected(None, 12.0, "presses a second, over 5 s of play")
    detail = {"slowness": 3.0, "presses_per_real_second": 5.0}
    assert [Finding(Reason.INPUTS_SLOWED, 15.0, expected, 298, detail)] == list(
        slow_motion_inputs(of(words), 60, 60.0, LIMITS)
    )


@pytest.mark.parametrize(
    ("changed", "elapsed_s", "is_found"),
    [
        ({"slow_motion_ratio": 3.0}, 60.0, True),
        ({"slow_motion_ratio": 3.0}, 59.9, False),
        ({"minimum_presses": 298}, 60.0, True),
        ({"minimum_presses": 299}, 60.0, False),
        ({"slow_motion_presses_per_second": 14.9}, 60.0, True),
        ({"slow_motion_presses_per_second": 15.0}, 60.0, False),
    ],
)
def test_P15_slow_motion_has_the_boards_limits(changed: dict[str, Any], elapsed_s: float, is_found: bool):
    """As slow, and as many presses, as the board says is found; as dense as it says is not yet."""
    inputs = of(pressed({1: even(298, every=4, length=2)}, 1_200))
    assert is_found is bool(list(slow_motion_inputs(inputs, 60, elapsed_s, Forensics(**changed))))


def likened(
    ours: ComparableRecording, *others: tuple[str, ComparableRecording], **changed: Any
) -> list[Finding]:
    return list(similarity(ours, others, Forensics(**changed)))


def test_P02_likeness_is_told_with_whom_the_nearest_first():
    """How well the nearest fits, of how much, and how many shingles both have; what is not alike is not named."""
    words = players.honest(3)
    ours, edited, other = (
        ComparableRecording(each.tobytes(), of(each))
        for each in (words, players.edited(words, 3, 0.05), players.honest(4))
    )
    expected = Expected(None, 0.65, "agreement of the inputs, moved to where they fit best")
    named: Sequence[tuple[str, ComparableRecording]] = [("edited", edited), ("other", other), ("same", ours)]
    [finding] = likened(ours, *named)
    assert finding == Finding(
        Reason.RECORDING_SIMILAR,
        1.0,
        expected,
        int(ours.shingles.size),
        {"resemblance": 1.0},
        others=("same", "edited"),
    )
    [alone] = likened(ours, ("edited", edited))
    assert {"resemblance": round(resemblance(ours.shingles, edited.shingles), 3)} == alone.detail
    assert alone.value < 1.0
    assert [] == likened(ours, ("other", other))
    assert [] == likened(ours, ("same", ours), correlation=1.0)


def test_P02_what_is_too_little_is_like_nothing():
    """At the least number of shingles it is compared, with one fewer not."""
    words = players.honest(3)
    ours = ComparableRecording(words.tobytes(), of(words))
    count = int(ours.shingles.size)
    assert likened(ours, ("same", ours), minimum_shingles=count)
    assert [] == likened(ours, ("same", ours), minimum_shingles=count + 1)


def test_P02_recordings_in_a_format_of_the_games_own_are_compared_by_their_bytes():
    """By the share of shingles that both have, held against a limit of its own."""
    data = np.random.default_rng(5).integers(0, 256, 4_000, dtype=np.uint8).tobytes()
    ours, half = ComparableRecording(data, None), ComparableRecording(data[:2_400] + bytes(1_600), None)
    [finding] = likened(ours, ("half", half), ("same", ours))
    expected = Expected(None, 0.5, "agreement of the shingles of the recording")
    assert (expected, 1.0, ("same", "half")) == (finding.expected, finding.value, finding.others)
    share = resemblance(ours.shingles, half.shingles)
    assert 0.5 < share < 0.7
    assert [] == likened(ours, ("half", half), resemblance=0.9)


def test_P02_recordings_of_two_formats_are_compared_by_their_bytes():
    """A board may have changed its format: what came before is no fault, and is like nothing that came after."""
    words = players.honest(3)
    ours = ComparableRecording(words.tobytes(), of(words))
    raw = ComparableRecording(words.tobytes(), None)
    assert [] == likened(ours, ("raw", raw))
    assert [] == likened(raw, ("ours", ours))
