"""The scale on which scores are compared, and the middle of samples: beside plain arithmetic, and at any extremes."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.judging import Transform
from policies.vocabulary import SCORE_LIMIT
from validators.baseline import Baseline
from validators.scale import (
    NORMAL_MAD,
    Middle,
    all_on_scale,
    middle_of,
    middle_of_moments,
    middle_of_values,
    on_scale,
    robust_middle,
    step_on_scale,
)

SCORES = st.integers(-SCORE_LIMIT, SCORE_LIMIT)
TRANSFORMS = st.sampled_from(Transform)
SPREADS = st.floats(1e-6, 1e6)


@given(SCORES, SCORES, TRANSFORMS)
def test_the_scale_keeps_the_order_of_scores(one: int, other: int, transform: Transform) -> None:
    """One by one and all at once; scores below 0 are one place of logarithms."""
    low, high = sorted((one, other))
    assert on_scale(low, transform) <= on_scale(high, transform)
    assert [on_scale(low, transform), on_scale(high, transform)] == pytest.approx(
        all_on_scale([low, high], transform).tolist()
    )
    assert 0.0 == on_scale(min(one, 0), Transform.LOG)


@given(st.integers(0, 10**6), st.integers(0, 10**6), TRANSFORMS)
def test_a_step_leads_to_the_score_above(score: int, points: int, transform: Transform) -> None:
    """From wherever it begins."""
    begin = on_scale(score, transform)
    assert on_scale(score + points, transform) == pytest.approx(
        begin + step_on_scale(points, begin, transform), abs=1e-6
    )


@given(st.floats(0, 20), SPREADS, st.floats(-5, 5), TRANSFORMS)
def test_a_score_that_is_so_far_away_is_found_there(
    centre: float, spread: float, deviation: float, transform: Transform
) -> None:
    """The limit that a moderator reads is the score at which a finding begins."""
    middle = Middle(centre, spread)
    points = middle.points_at(deviation, transform)
    if transform is not Transform.LOG or 0 <= centre + deviation * spread <= 700:
        assert middle.deviation(points, transform) == pytest.approx(deviation, abs=1e-3, rel=1e-6)


@given(st.floats(-1e9, 1e9), st.floats(0, 1e300), st.floats(-1e3, 1e3), TRANSFORMS)
def test_no_limit_is_too_large_to_be_told(
    centre: float, spread: float, deviation: float, transform: Transform
) -> None:
    """However wide a prior is, a finding says where the limit lies."""
    assert not math.isnan(Middle(centre, spread).points_at(deviation, transform))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=15))
def test_the_middle_of_a_sample_is_its_median_and_corrected_mad(values: list[float]) -> None:
    """As Python's own statistics have both; small samples are corrected by the table of Croux and Rousseeuw."""
    factors = [1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107]
    count, median = len(values), statistics.median(values)
    factor = factors[count] if count < len(factors) else count / (count - 0.8)
    mad = statistics.median(abs(value - median) for value in values)
    middle = middle_of_values(np.array(values))
    assert [median, mad * factor / NORMAL_MAD] == pytest.approx([*middle])


def test_without_scores_there_is_no_middle() -> None:
    """And none that is kept for later."""
    assert Middle(0.0, 0.0) == robust_middle((), Transform.LOG)


@pytest.mark.parametrize("transform", [Transform.NONE, Transform.LOG])
def test_scores_that_are_mostly_equal_are_measured_by_their_deviation(transform: Transform) -> None:
    """Their MAD is 0, by which nothing can be measured; the moments are of all, not of the newest."""
    same = Baseline(100, 50.0, 9_900.0, (50, 50, 50, 50, 90))
    assert middle_of_moments(50.0, 10.0, transform) == middle_of(same, transform)
    varied = Baseline(100, 50.0, 9_900.0, (40, 50, 60))
    assert robust_middle((40, 50, 60), transform) == middle_of(varied, transform)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6))
def test_moments_become_those_of_logarithms(mean: float, spread: float) -> None:
    """A lognormal distribution with the middle that comes out has the mean and deviation that went in."""
    middle = middle_of_moments(mean, spread, Transform.LOG)
    whole, variance = 1 + max(mean, 0.0), middle.spread**2
    assert math.exp(middle.centre + variance / 2) == pytest.approx(whole, rel=1e-6)
    assert whole * math.sqrt(math.expm1(variance)) == pytest.approx(spread, rel=1e-6)
    assert Middle(mean, spread) == middle_of_moments(mean, spread, Transform.NONE)


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 1e4), TRANSFORMS)
def test_no_spread_is_below_its_floor(
    centre: float, spread: float, floor: float, transform: Transform
) -> None:
    """So many points above the middle are at most one spread away."""
    floored = Middle(centre, spread).floored(floor, transform)
    assert (centre, max(spread, step_on_scale(floor, centre, transform))) == floored
