"""Bounds: what the game can give at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.judging import Bounds
from policies.vocabulary import SCORE_LIMIT, Claim, Expected, Reason
from tests.support.submissions import a_policy, a_submission
from validators.bounds import bounds, is_playable, is_score_possible
from validators.submission import History

STATS = {"kills": 1}


@pytest.mark.parametrize("score", [0, 10, 9_990, 10_000])
def test_scores_on_the_grid_within_the_limits_are_possible(score):
    """Both limits belong to the range."""
    assert () == bounds(a_submission(score=score), a_policy(), History())


@pytest.mark.parametrize("score", [-10, 5, 10_010, SCORE_LIMIT])
def test_V01_scores_outside_or_off_the_grid_are_found(score):
    """Below, above, and between the steps; the finding says the range and the step."""
    [finding] = bounds(a_submission(score=score), a_policy(), History())
    assert (Reason.SCORE_BOUNDS, score) == (finding.reason, finding.value)
    assert Expected(at_least=0, at_most=10_000, unit="points") == finding.expected
    assert {"step": 10} == finding.detail


@pytest.mark.parametrize("ticks", [0, 3_601])
def test_V01_a_run_has_at_least_one_tick_and_no_more_than_the_game_allows(ticks):
    """Ticks are bounded like scores."""
    assert is_playable(Claim(10, 3_600, STATS), a_policy())
    assert not is_playable(Claim(10, ticks, STATS), a_policy())


@pytest.mark.parametrize("stats", [{}, {"deaths": 1}, {"kills": 1, "deaths": 1}])
def test_stats_of_a_replay_are_exactly_the_declared_ones(stats):
    """None missing, none invented."""
    assert not is_playable(Claim(10, 60, stats), a_policy())


@given(minimum=st.integers(-SCORE_LIMIT, 0), step=st.integers(1, 10**6), steps=st.integers(0, 10**6))
def test_the_grid_starts_at_the_minimum(minimum, step, steps):
    """The minimum + k * step is possible, and one beside it is not unless the step is 1."""
    policy = a_policy(score=Bounds(minimum=minimum, maximum=SCORE_LIMIT, step=step))
    score = min(minimum + steps * step, SCORE_LIMIT - step)
    score -= (score - minimum) % step
    assert is_score_possible(score, policy)
    assert is_score_possible(score + 1, policy) == (step == 1)
