"""What forensics measures, beside plain arithmetic, and where each limit begins."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pstdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from policies.judging import ALL_BITS, Forensics
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import NO_SHINGLES, bands_of, resemblance, shingles_of, shingles_of_bytes
from replay.forensics.similarity import _pieces, correlation
from replay.forensics.slow_motion import input_rate, slow_motion_inputs
from replay.forensics.spans import scatter_of, scatters
from replay.forensics.timing import strongest_beats, timing
from replay.forensics.toggles import toggles_of

NOTHING_IS_EVEN = {"interval_variation": 0.0, "press_variation": 0.0, "interval_entropy_bits": 0.0}


def of(words: Sequence[int], buttons: int = ALL_BITS) -> Inputs:
    return inputs_of(np.array(words, np.uint32).tobytes(), buttons)


def pressed(spans: dict[int, Sequence[tuple[int, int]]], ticks: int) -> Inputs:
    """A run in which each bit is pressed at such ticks for so many."""
    words = np.zeros(ticks, np.uint32)
    for bit, presses in spans.items():
        for begin, length in presses:
            words[begin : begin + length] |= np.uint32(1 << bit)
    return inputs_of(words.tobytes(), ALL_BITS)


def every(ticks: int, count: int, length: int = 1, begin: int = 0) -> list[tuple[int, int]]:
    return [(begin + number * ticks, length) for number in range(count)]


def timed(inputs: Inputs, ticks_per_second: int = 60, **limits: Any) -> list[Finding]:
    return list(timing(inputs, ticks_per_second, Forensics(**limits)))


def plain_scatter(spans: Sequence[int]) -> tuple[int, int, float, float]:
    """Size, middle, deviation by mean without the longest tenth, and entropy by Miller's estimate."""
    if not spans:
        return 0, 0, 0.0, 0.0
    ordered, size = sorted(spans), len(spans)
    kept = ordered[: size - size // 10]
    counts = Counter(ordered).values()
    bits = -sum(each / size * math.log2(each / size) for each in counts)
    return (
        size,
        ordered[size // 2],
        pstdev(kept) / fmean(kept),
        bits + (len(counts) - 1) / (2 * size * math.log(2)),
    )


@pytest.mark.parametrize("sizes", [[1], [9], [10], [11], [19, 0, 3], [0, 5, 0, 30, 1], [0]])
def test_the_scatter_of_spans_is_that_of_plain_arithmetic(sizes: list[int]):
    """Of one button or several, some without spans; a tenth begins at ten spans."""
    rng = np.random.default_rng(sum(sizes))
    spans = [rng.integers(1, 9, size).tolist() for size in sizes]
    button = np.repeat(np.arange(len(sizes)), sizes)
    joined = np.array([span for each in spans for span in each], np.int64)
    found = list(scatters(joined, button, len(sizes)))
    assert [plain_scatter(each)[:2] for each in spans] == [each[:2] for each in found]
    for each, scatter in zip(spans, found, strict=True):
        assert plain_scatter(each)[2:] == pytest.approx(scatter[2:])


def test_buttons_scatter_by_intervals_of_presses_and_by_lengths():
    """From press to press, and from press to release; a press that the end cuts off has no length."""
    inputs = pressed({1: [(2, 3), (9, 4), (20, 9)], 4: [(0, 1), (6, 2)]}, 25)
    [first, second] = scatter_of(toggles_of([inputs]))
    assert [(2, 11), (2, 4), (1, 6), (2, 2)] == [
        each[:2] for each in (first.intervals, first.lengths, second.intervals, second.lengths)
    ]


def test_inputs_are_buttons_that_go_down_and_up():
    """Of each bit that is used, lowest first: when it toggles, when it is pressed, and for how long."""
    inputs = of([0b10, 0b11, 0b01, 0b00, 0b10, 0b10, 0b11])
    assert [(0, [1, 3, 6]), (1, [0, 2, 4])] == [(each.bit, each.toggles.tolist()) for each in inputs.buttons]
    assert [([1, 6], [2]), ([0, 4], [2])] == [
        (each.presses.tolist(), each.lengths.tolist()) for each in inputs.buttons
    ]
    assert (7, [0, 1, 4, 6], [2, 3, 1, 0, 2, 3]) == (
        inputs.ticks,
        inputs.presses.tolist(),
        inputs.reached.tolist(),
    )
    silent = of([0, 0])
    assert (2, (), 0) == (silent.ticks, tuple(silent.buttons), silent.presses.size)
    masked = of([0b10, 0b11], buttons=0b01)
    assert [(0, [1])] == [(each.bit, each.toggles.tolist()) for each in masked.buttons]
    assert [31] == [each.bit for each in of([1 << 31]).buttons]


@pytest.mark.parametrize(("words", "is_analog"), [(64, False), (65, True)])
def test_more_than_64_words_are_numbers_unless_the_board_names_buttons(words: int, is_analog: bool):
    """A stick has more; named buttons are buttons whatever else is pressed."""
    inputs = of(range(1, words + 1))
    assert is_analog is inputs.is_analog
    assert (
        is_analog is of([0, *range(1, words + 1)]).is_analog
    )  # nothing was pressed yet: no word was reached
    assert not of(range(1, words + 1), buttons=0xFF).is_analog


@pytest.mark.parametrize(("ticks", "is_found"), [(3, False), (4, True), (5, True)])
def test_spans_below_four_ticks_are_rounding(ticks: int, is_found: bool):
    """Intervals and lengths alike: the middle one counts, each for itself."""
    even = {"interval_variation": 0.1, "interval_entropy_bits": 0.0, "press_variation": 0.0}
    inputs = pressed({0: every(ticks, 60)}, 400)
    assert [Reason.INPUTS_EVEN] * is_found == [
        each.reason for each in timed(inputs, **even, shortest_press_ms=1.0)
    ]
    even = {"interval_variation": 0.0, "interval_entropy_bits": 0.0, "press_variation": 0.1}
    inputs = pressed({0: every(9, 60, length=ticks)}, 600)
    found = timed(inputs, **even, shortest_press_ms=1.0)
    assert [Reason.INPUTS_EVEN] * is_found == [each.reason for each in found]


@pytest.mark.parametrize(
    ("count", "minimum", "is_found"), [(99, 10, 0), (100, 10, 1), (110, 111, 0), (111, 111, 1)]
)
def test_a_beat_needs_a_hundred_presses_or_what_the_board_asks_for(count: int, minimum: int, is_found: int):
    """Whichever is more; told with how many there were, of which button, and at which frequency."""
    inputs = pressed({2: every(12, count, length=5)}, 12 * count)
    limits = NOTHING_IS_EVEN | {"minimum_presses": minimum, "slowest_device_hz": 6.0}
    found = timed(inputs, **limits)
    detail = {"button": 2, "beat_hz": pytest.approx(5.0, abs=0.02)}
    assert [detail] * is_found == [each.detail for each in found]
    assert [(Reason.INPUTS_PERIODIC, count)] * is_found == [(each.reason, each.sample_size) for each in found]


def test_a_beat_of_all_buttons_together_is_told_without_one():
    """Two buttons in turn, of which each has too few presses by itself; two at once are one press."""
    spans = every(24, 60, length=5)
    together = [(begin + 12, length) for begin, length in spans]
    limits = NOTHING_IS_EVEN | {"slowest_device_hz": 6.0}
    [finding] = timed(pressed({0: spans, 3: together, 5: spans}, 60 * 24), **limits)
    assert (-1, 120) == (finding.detail["button"], finding.sample_size)


def test_a_beat_is_looked_for_in_the_first_18_minutes_alone():
    """Tick 65,535 is the last that counts."""
    presses = [*every(12, 120, length=5), *every(12, 3, length=5, begin=65_500), (65_536, 5), (65_600, 5)]
    limits = NOTHING_IS_EVEN | {"slowest_device_hz": 6.0, "periodicity": 0.5}
    [finding] = timed(pressed({0: presses}, 66_000), **limits)
    assert 123 == finding.sample_size


def test_beats_are_searched_between_one_hertz_and_the_slowest_device():
    """Nothing is searched where that leaves no room; no train at all has no beat; a metronome has nearly 1."""
    train = np.arange(0, 1200, 12)
    assert [(0.0, 0.0), (0.0, 0.0)] == strongest_beats([train, train], 1200, 60, 1.0)
    assert 0.0 == strongest_beats([train[:0]], 1200, 60, 20.0)[0][0]
    [(strength, hz)] = strongest_beats([train], 1200, 60, 5.3)
    assert (1.0, 5.0) == (pytest.approx(strength, abs=0.02), pytest.approx(hz, abs=0.02))
    [(strength, hz)] = strongest_beats([train], 1200, 60, 5.2)
    assert strength < 0.9
    for period, is_found in ((58, True), (62, False)):
        [(strength, _)] = strongest_beats([np.arange(0, 6000, period)], 6000, 60, 1.2)
        assert is_found is (strength > 0.9)


@pytest.mark.parametrize(
    ("shortest_ms", "ticks_per_second", "longest"),
    [(16.0, 60, 0), (17.0, 60, 1), (33.0, 60, 1), (34.0, 60, 2), (17.0, 120, 2), (17.0, 30, 0)],
)
def test_presses_are_too_short_within_whole_ticks_of_the_boards_time(
    shortest_ms: float, ticks_per_second: int, longest: int
):
    """A tick that does not fit is none; where none fits nothing is too short."""
    limits = NOTHING_IS_EVEN | {
        "shortest_press_ms": shortest_ms,
        "slowest_device_hz": 5.0,
        "periodicity": 1.0,
    }
    for length in (1, 2, 3):
        found = timed(pressed({0: every(9, 50, length)}, 500), ticks_per_second, **limits)
        expected = Expected(None, 0.8, f"of the presses last {longest} ticks or less")
        assert [expected] * (length <= longest) == [each.expected for each in found]


@pytest.mark.parametrize(("ticks", "count"), [(59, 16), (60, 15), (61, 15)])
def test_presses_within_a_second_of_play_are_those_before_its_end(ticks: int, count: int):
    """The press one second after the first is of the next; as many as the board allows are a hand's."""
    presses = [*every(4, 15), (ticks, 1)]
    inputs = pressed({0: presses, 7: presses}, 100)
    expected = Expected(None, 14.0, "presses of one button in a second of play")
    row = Finding(Reason.INPUTS_DENSE, count, expected, 16, {"button": 0})
    assert [row] == list(input_rate(inputs, 60, Forensics(presses_per_second=14.0)))
    assert [] == list(input_rate(inputs, 60, Forensics(presses_per_second=float(count))))


def test_slow_motion_is_told_to_two_digits_and_of_a_run_of_a_tick_too():
    """So many presses in five seconds of play, whichever button; slowness is real time by time played."""
    inputs = pressed({0: every(14, 50), 1: every(14, 50, begin=7)}, 720)
    [finding] = slow_motion_inputs(inputs, 60, 40.0, Forensics(slow_motion_presses_per_second=8.0))
    assert (8.6, {"slowness": 3.33, "presses_per_real_second": 2.58}) == (finding.value, finding.detail)
    limits = SimpleNamespace(slow_motion_ratio=60.0, minimum_presses=1, slow_motion_presses_per_second=0.1)
    tick: Any = of([1])
    assert [60.0] == [each.detail["slowness"] for each in slow_motion_inputs(tick, 60, 1.0, limits)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ticks", "shape"),
    [
        (1, (2, 1, 1)),
        (239, (2, 1, 239)),
        (479, (2, 1, 479)),
        (480, (2, 2, 240)),
        (481, (2, 2, 240)),
        (1919, (2, 7, 274)),
        (1920, (2, 8, 240)),
        (9000, (2, 8, 1125)),
    ],
)
def test_a_run_is_compared_in_pieces_of_four_seconds_and_at_most_eight(ticks: int, shape: tuple[int, ...]):
    """Each holds all buttons; what is over at the end is dropped."""
    pieces = _pieces(np.arange(2 * ticks, dtype=np.float32).reshape(2, ticks))
    assert shape == pieces.shape
    _, count, length = shape
    assert [number * length for number in range(count)] == pieces[0, :, 0].tolist()
    assert [ticks + number * length for number in range(count)] == pieces[1, :, 0].tolist()


def some_presses(seed: int, ticks: int = 2_000) -> np.ndarray[Any, np.dtype[np.uint32]]:
    rng = np.random.default_rng(seed)
    return (rng.random(ticks // 10) < 0.3).repeat(10).astype(np.uint32)


def test_runs_fit_wherever_they_were_moved_and_only_by_what_both_press():
    """The same moved by half a second, beside a button of one alone; others hardly, and none without a common button."""
    words = some_presses(1)
    moved = np.concatenate([np.zeros(30, np.uint32), words])
    beside = moved | (np.arange(moved.size, dtype=np.uint32) // 7 % 2 << np.uint32(3))
    assert 1.0 == pytest.approx(correlation(of(words), of(words)), abs=1e-3)
    assert 0.97 < correlation(of(words), of(beside)) <= 1.0
    assert correlation(of(words), of(some_presses(2))) < 0.65
    assert 0.0 == correlation(of(words), of(words << np.uint32(1))) == correlation(of([0, 0]), of(words))


def test_only_the_first_nine_minutes_are_compared():
    """What follows tick 32,768 changes nothing."""
    words = some_presses(3, 33_000)
    other = words.copy()
    other[32_768:] ^= 1
    assert correlation(of(words), of(words)) == correlation(of(words), of(other))
    other[32_767] ^= 1
    assert correlation(of(words), of(words)) != correlation(of(words), of(other))


def test_shingles_are_of_four_gaps_and_eight_bytes():
    """Fewer give none; the most that are kept are the smallest 4,096; equal ones count once."""
    assert [0, 0, 2, 2] == [
        shingles_of(pressed({0: every(10, count, 3)}, 100)).size for count in (1, 2, 3, 5)
    ]
    assert 1 == shingles_of(pressed({0: every(10, 3, 9)}, 28)).size
    assert [0, 1, 1, 2] == [
        shingles_of_bytes(data).size for data in (b"1234567", b"12345678", b"a" * 30, b"a" * 8 + b"b")
    ]
    many = shingles_of_bytes(np.random.default_rng(1).bytes(9_000))
    assert 4_096 == many.size
    assert (np.diff(many.astype(object)) > 0).all()
    assert [] == bands_of(NO_SHINGLES)
    assert 24 == len(set(bands_of(many)))


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [([], [], 0.0), ([1], [], 0.0), ([1], [1], 1.0), ([1, 2, 3], [3, 4], 0.25), ([1, 2], [1, 2, 3, 4], 0.5)],
)
def test_resemblance_is_what_both_have_of_what_either_has(ours: list[int], theirs: list[int], share: float):
    """The Jaccard index; two that have nothing resemble nobody."""
    assert share == resemblance(np.array(ours, np.uint64), np.array(theirs, np.uint64))
