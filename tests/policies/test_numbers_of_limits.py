"""The numbers of limits, beside a bucket that fills as time goes on, and the defaults that boards rely on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.choices import Operator, WindowKind
from policies.judging import Bounds
from policies.limits import HourlyRate, Limits, Rate, RecordingRetention, charged
from policies.rollups import PercentilePoints, Rollup
from policies.ties import refuse_coarse_slots, slot_lengths_ms
from tests.support.thorough import examples

RATES = st.builds(Rate, per_minute=st.integers(1, 500), burst=st.integers(1, 9)) | st.builds(
    HourlyRate, per_hour=st.integers(1, 9)
)
STEPS = st.lists(st.tuples(st.integers(0, 90_000_000), st.integers(1, 12)), min_size=1, max_size=8)


@settings(max_examples=examples(60))
@given(RATES, STEPS)
def test_a_limit_is_a_bucket_that_fills_evenly(rate: Rate | HourlyRate, steps: list[tuple[int, int]]):
    """Units fit if the bucket has them, more than the whole burst count as the burst, and the wait is until they are there."""
    level, now_us, whole_at_us = Fraction(rate.burst), 0, 0
    for later_us, units in steps:
        now_us += later_us
        level = min(Fraction(rate.burst), level + Fraction(later_us, rate.interval_us))
        taken = min(units, rate.burst)
        wait_us, after_us = charged(rate, whole_at_us, now_us, units)
        assert (taken - level) * rate.interval_us == wait_us
        assert (rate.burst - level + taken) * rate.interval_us + now_us == after_us
        if wait_us <= 0:
            level, whole_at_us = level - taken, after_us


def test_a_limit_written_by_a_clock_ahead_is_no_longer_than_its_burst():
    """Whatever it says, a whole burst is there again after the time of one."""
    rate = Rate(per_minute=60, burst=5)
    for whole_at_us in (5_000_001, 10**15):
        assert (1_000_000, 6_000_000) == charged(rate, whole_at_us, 0)


@pytest.mark.parametrize(
    ("rate", "interval_us", "window_s", "burst"),
    [
        (Rate(per_minute=60, burst=5), 1_000_000, 5, 5),
        (Rate(per_minute=7, burst=3), 8_571_429, 26, 3),
        (Rate(per_minute=10_000_000, burst=1_000_000), 6, 6, 1_000_000),
        (HourlyRate(per_hour=7), 514_285_715, 3_600, 7),
        (HourlyRate(per_hour=3_600), 1_000_000, 3_600, 3_600),
    ],
)
def test_intervals_are_rounded_up(rate: Any, interval_us: int, window_s: int, burst: int):
    """Rounded down they would add up to more than the rate."""
    assert (interval_us, window_s, burst) == (rate.interval_us, rate.window_s, rate.burst)


def test_rates_are_multiplied_up_to_the_largest():
    """Each number by itself."""
    assert Rate(per_minute=56, burst=24) == Rate(per_minute=7, burst=3).times(8)
    assert Rate(per_minute=10_000_000, burst=8) == Rate(per_minute=5_000_000, burst=1).times(8)
    assert Rate(per_minute=8, burst=1_000_000) == Rate(per_minute=1, burst=500_000).times(8)
    assert [HourlyRate(per_hour=24), HourlyRate(per_hour=1_000_000)] == [
        HourlyRate(per_hour=each).times(8) for each in (3, 500_000)
    ]


def test_boards_that_say_nothing_have_these_limits():
    """Documented numbers, which players, addresses and networks meet everywhere; a network has those of eight addresses."""
    shown = Limits().model_dump(mode="json")
    assert shown == {
        "player": {"per_minute": 20, "burst": 10},
        "address": {"per_minute": 600, "burst": 120},
        "network": None,
        "player_kib": {"per_minute": 1_024, "burst": 8_192},
        "address_kib": {"per_minute": 8_192, "burst": 32_768},
        "network_kib": None,
        "refused": {"player": 20, "address": 400, "window_s": 3_600},
        "open_runs": 5,
    }
    assert (4_800, 960, 65_536, 262_144, 90) == (
        Limits().of_network.per_minute,
        Limits().of_network.burst,
        Limits().of_network_kib.per_minute,
        Limits().of_network_kib.burst,
        RecordingRetention().refused_days,
    )
    own, small = Rate(per_minute=1, burst=1), Rate(per_minute=2, burst=2)
    given = Limits(network=own, network_kib=small)
    assert (own, small) == (given.of_network, given.of_network_kib)


HOUR_MS = 3_600_000
SPANS_MS = {
    WindowKind.ALLTIME: 2_524_608_000_000,
    WindowKind.DAILY: 25 * HOUR_MS,
    WindowKind.WEEKLY: 169 * HOUR_MS,
    WindowKind.MONTHLY: 745 * HOUR_MS,
    WindowKind.SEASON: 8_785 * HOUR_MS,
}


@pytest.mark.parametrize("bits", [1, 20, 33, 53])
def test_slots_share_what_scores_leave_of_a_number(bits: int):
    """Each kind of window in as many slots as fit beside the scores, its longest one with an hour to spare."""
    score = Bounds(minimum=-3, maximum=2**bits - 4)
    slots = 2 ** (53 - bits)
    expected = {kind: -(-span_ms // slots) for kind, span_ms in SPANS_MS.items()}
    assert expected == dict(slot_lengths_ms(score, SPANS_MS))


def test_slots_are_no_coarser_than_was_asked_for():
    """To the millisecond; without any room, and where scores add up, there are none."""
    score = Bounds(minimum=0, maximum=2**33 - 1)
    refuse_coarse_slots(Operator.BEST, score, [WindowKind.DAILY], 86)
    for operator, bounds, resolution_ms, reason in (
        (Operator.LATEST, score, 85, "slots of 86 ms in daily, longer than the `tie_resolution_ms` of 85"),
        (Operator.SUM, score, 86, "needs bounded scores"),
        (Operator.COUNT, score, 86, "needs bounded scores"),
        (Operator.BEST, Bounds(minimum=-(2**52), maximum=2**52), 86, "needs bounds less than 2\\^53 apart"),
    ):
        with pytest.raises(ValueError, match=reason):
            refuse_coarse_slots(operator, bounds, [WindowKind.DAILY], resolution_ms)
    assert {} == dict(slot_lengths_ms(Bounds(minimum=-(2**52), maximum=2**52), [WindowKind.DAILY]))


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, None),
        ({"take": "best"}, None),
        ({"take": "points", "points": [3, 3, 1]}, None),
        ({"take": "points", "percentiles": [{"at": 99.5, "points": 3}, {"at": 50, "points": 3}]}, None),
        ({"take": "points"}, "needs one of the two"),
        ({"take": "sum", "points": [3]}, "needs one of the two"),
        ({"take": "points", "points": [3], "percentiles": [{"at": 1, "points": 1}]}, "needs one of the two"),
        ({"take": "points", "points": [1, 2]}, "must not rise from one rank"),
        ({"take": "points", "percentiles": [{"at": 50, "points": 3}, {"at": 50, "points": 1}]}, "must fall"),
        ({"take": "points", "percentiles": [{"at": 50, "points": 1}, {"at": 40, "points": 2}]}, "must fall"),
        ({"take": "points", "points": [1] * 100}, None),
        ({"take": "points", "points": [1] * 101}, "at most 100"),
        ({"take": "points", "points": [1_000_000]}, None),
        ({"take": "points", "points": [1_000_001]}, "less than or equal to 1000000"),
        ({"take": "points", "points": [0]}, "greater than or equal to 1"),
        ({"take": "points", "percentiles": [{"at": 50.001, "points": 1}]}, "at most two decimals"),
    ],
)
def test_points_belong_to_ranks_or_to_percentiles(changes: dict[str, Any], refusal: str | None):
    """Of one of the two, falling, and no more than there may be."""
    said = {"family": "track", **changes}
    if refusal is None:
        assert said.get("take", "sum") == Rollup.model_validate(said).take.value
        return
    with pytest.raises(ValueError, match=refusal):
        Rollup.model_validate(said)


def test_a_percentile_is_kept_in_hundredths():
    """Exactly, also where a float is not."""
    assert [0, 1, 29, 5_001, 9_999, 10_000] == [
        PercentilePoints(at=at, points=1).share for at in (0, 0.01, 0.29, 50.01, 99.99, 100)
    ]
