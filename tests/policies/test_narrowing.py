"""Narrower bounds of one board: nothing gets through that its family would not let through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import SettingRefused
from policies.judging import Bounds, Prior
from policies.model import Policy
from policies.narrowing import narrowed, refuse_wider
from policies.opened_board import NarrowedBounds, NarrowedScore
from tests.support.policies import a_policy

SCORES = st.integers(-60, 60)


def a_family(**changes: Any) -> Policy:
    """A policy whose scores go from 0 to 100 in steps of 5."""
    return Policy.model_validate(a_policy(score={"minimum": 0, "maximum": 100, "step": 5}, **changes))


def replayed(ticks: int = 600) -> Policy:
    return a_family(writes="verified", builds={"b": {"simulator": "b.wasm"}}, replay={"maximum_ticks": ticks})


def score(minimum: int | None = None, maximum: int | None = None) -> NarrowedBounds:
    return NarrowedBounds(score=NarrowedScore(minimum=minimum, maximum=maximum))


def possible(bounds: Bounds) -> set[int]:
    return set(range(bounds.minimum, bounds.maximum + 1, bounds.step))


@pytest.mark.parametrize(
    ("bounds", "location", "fault"),
    [
        (score(minimum=-1), "score.minimum", "below the family's 0: a board may only narrow its bounds"),
        (score(maximum=101), "score.maximum", "above the family's 100: a board may only narrow its bounds"),
        (score(minimum=50, maximum=50), "score", "minimum must be below maximum"),
        (score(minimum=100), "score", "minimum must be below maximum"),
        (score(minimum=7), "score.minimum", "not a score of the family, whose steps are 5"),
        (NarrowedBounds(maximum_ticks=601), "maximum_ticks", "above the family's 600"),
    ],
)
def test_a_wider_bound_is_refused_by_name(bounds: NarrowedBounds, location: str, fault: str):
    """The bound, and the family's."""
    with pytest.raises(SettingRefused, match=fault) as refused:
        refuse_wider(replayed(), bounds)
    assert f"bounds.{location}" == ".".join(refused.value.location)


def test_the_family_s_own_bounds_are_narrow_enough():
    """Equal is not wider, and then nothing differs."""
    bounds = NarrowedBounds(score=NarrowedScore(minimum=0, maximum=100), maximum_ticks=600)
    refuse_wider(replayed(), bounds)
    refuse_wider(replayed(), None)
    assert ({}, {}) == (narrowed(replayed(), bounds), narrowed(replayed(), None))


def test_narrower_bounds_take_the_place_of_the_family_s():
    """Only the sections that differ are there; the rest of a section stays."""
    bounds = NarrowedBounds(score=NarrowedScore(minimum=20, maximum=60), maximum_ticks=90)
    refuse_wider(replayed(), bounds)
    sections = narrowed(replayed(), bounds)
    assert {"score", "replay"} == sections.keys()
    assert Bounds(minimum=20, maximum=60, step=5) == sections["score"]
    assert {} == narrowed(replayed(90), NarrowedBounds(maximum_ticks=100))
    assert (90, 60) == (sections["replay"].maximum_ticks, sections["replay"].checkpoint_ticks)


def test_on_a_composite_board_bounds_are_places():
    """Other bounds would pack the same score into another number."""
    packed = a_family(tie_break="composite", tie_resolution_ms=60_000)
    with pytest.raises(SettingRefused, match="the bounds decide places, so no board has its own"):
        refuse_wider(packed, score(maximum=50))
    assert {} == narrowed(packed, score(maximum=50))
    refuse_wider(packed, score())


@settings(deadline=None)
@given(SCORES, SCORES, st.integers(1, 7), st.none() | SCORES, st.none() | SCORES)
def test_no_score_is_possible_that_the_family_rules_out(low, high, step, minimum, maximum):
    """Whatever a board was opened with, and whatever its family became since; and what is allowed is what it says."""
    low, high = min(low, high), max(low, high) + 1
    policy = a_family()
    policy = policy.model_copy(update={"score": Bounds(minimum=low, maximum=high, step=step)})
    bounds = score(minimum, maximum)
    here = narrowed(policy, bounds).get("score", policy.score)
    assert possible(here) <= possible(policy.score)
    try:
        refuse_wider(policy, bounds)
    except SettingRefused:
        return
    assert (low if minimum is None else minimum) == here.minimum
    assert (high if maximum is None else maximum) == here.maximum


@settings(deadline=None)
@given(st.tuples(SCORES, SCORES, SCORES, SCORES))
def test_narrowing_twice_is_narrower_than_once(ends: tuple[int, ...]):
    """The narrower of two bounds leaves nothing that the wider rules out."""
    policy = a_family().model_copy(update={"score": Bounds(minimum=-61, maximum=61)})
    outer_low, inner_low, inner_high, outer_high = sorted(ends)
    if inner_low == inner_high:
        return
    outer, inner = score(outer_low, outer_high), score(inner_low, inner_high)
    assert possible(narrowed(policy, inner)["score"]) <= possible(narrowed(policy, outer)["score"])


@settings(deadline=None)
@given(
    st.sampled_from(["descending", "ascending"]),
    st.floats(0.5, 8),
    st.tuples(st.floats(-50, 150), st.floats(0.1, 60)),
    st.tuples(st.floats(-50, 150), st.floats(0.1, 60)),
    st.none() | st.floats(0.1, 40),
)
def test_a_narrower_prior_finds_whatever_the_family_s_does(order, threshold, family, own, floor):
    """No score is unusual for the family and usual for the board: the law by which a prior is let in."""
    rule = {"threshold": threshold, "prior": {"mean": family[0], "spread": family[1]}, "spread_floor": floor}
    policy, prior = a_family(order=order, anomaly=rule), Prior(mean=own[0], spread=own[1])
    sections = narrowed(policy, NarrowedBounds(prior=prior))
    anomaly = sections.get("anomaly", policy.anomaly)
    sign = -1 if order == "ascending" else 1

    def is_unusual(points: int, mean: float, spread: float) -> bool:
        return sign * (points - mean) > threshold * max(spread, policy.spread_floor) + 1e-6

    for points in range(-600, 700, 20):
        if is_unusual(points, *family):
            assert sign * (points - anomaly.prior.mean) > threshold * max(
                anomaly.prior.spread, policy.spread_floor
            )


def test_a_wider_prior_is_refused_and_has_no_effect():
    """A board whose prior expects more than the family's would let a newcomer's lie pass."""
    policy = a_family(anomaly={"prior": {"mean": 50, "spread": 5}})
    wide = NarrowedBounds(prior=Prior(mean=51.0, spread=5.0))
    with pytest.raises(SettingRefused, match="would be usual on this board"):
        refuse_wider(policy, wide)
    assert {} == narrowed(policy, wide)
    refuse_wider(policy, NarrowedBounds(prior=Prior(mean=30.0, spread=10.0)))


def test_any_prior_is_narrower_than_none():
    """Without a prior nothing is found in newcomers."""
    prior = Prior(mean=90.0, spread=50.0)
    refuse_wider(a_family(), NarrowedBounds(prior=prior))
    assert prior == narrowed(a_family(), NarrowedBounds(prior=prior))["anomaly"].prior


def test_priors_on_a_logarithmic_scale_are_the_family_s():
    """A spread of points is not the same everywhere there, so that none is known to be narrower."""
    rule = {"transform": "log", "prior": {"mean": 50, "spread": 5}}
    own = NarrowedBounds(prior=Prior(mean=10.0, spread=1.0))
    with pytest.raises(SettingRefused, match="would be usual"):
        refuse_wider(a_family(anomaly=rule), own)
    refuse_wider(a_family(anomaly={"transform": "log"}), own)
    with pytest.raises(SettingRefused, match="would be usual"):
        refuse_wider(
            a_family(anomaly={"transform": "log"}), NarrowedBounds(prior=Prior(mean=-1.0, spread=1.0))
        )
    refuse_wider(
        a_family(anomaly={"transform": "log"}), NarrowedBounds(prior=Prior(mean=0.0, spread=1.0))
    )  # the scale begins there


@pytest.mark.parametrize(
    ("own", "is_wider"),
    [
        (Prior(mean=51.0, spread=1.0), True),  # at most its mean plus three floors, as the family's
        (Prior(mean=50.0, spread=15.0), False),
        (Prior(mean=49.0, spread=21.0), True),
    ],
)
def test_no_spread_is_below_the_floor(own: Prior, is_wider: bool):
    """A spread below the floor is judged as the floor, on the board and in its family alike."""
    policy = a_family(anomaly={"threshold": 3, "spread_floor": 20, "prior": {"mean": 50, "spread": 5}})
    assert ({} == narrowed(policy, NarrowedBounds(prior=own))) is is_wider


def test_the_floor_of_a_board_is_that_of_its_own_scores():
    """With narrower scores the floor is lower, so that a prior with a higher mean can still be the narrower one."""
    rule = {"threshold": 3, "prior": {"mean": 500, "spread": 0.1}}
    policy = Policy.model_validate(a_policy(score={"minimum": 0, "maximum": 1_000}, anomaly=rule))
    own = Prior(mean=510.0, spread=0.1)
    wide, narrow = NarrowedBounds(prior=own), NarrowedBounds(score=NarrowedScore(maximum=500), prior=own)
    assert (10.0, 5.0) == (policy.spread_floor, policy.spread_floor_within(Bounds(minimum=0, maximum=500)))
    with pytest.raises(SettingRefused, match="would be usual"):
        refuse_wider(policy, wide)
    refuse_wider(policy, narrow)
    assert own == narrowed(policy, narrow)["anomaly"].prior
