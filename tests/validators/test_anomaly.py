"""Anomaly: the z-score against the player's own history, the population, or the prior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fields import Order
from policies.vocabulary import Reason
from tests.support.submissions import a_policy, a_submission
from validators.anomaly import anomaly
from validators.baseline import EMPTY, Baseline, Sums
from validators.submission import History

SCORES = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=40)


def of(*scores: int) -> Baseline:
    return sums(*scores).baseline


def sums(*scores: int) -> Sums:
    added = Sums()
    for score in scores:
        added = added.plus(score)
    return added


def findings(score: int, *, player=EMPTY, population=EMPTY, **policy):
    return anomaly(a_submission(score=score), a_policy(**policy), History(player, population))


@given(SCORES)
def test_a_baseline_is_the_mean_and_deviation_of_its_scores(scores):
    """The exact sums against numpy."""
    baseline = of(*scores)
    assert len(scores) == baseline.count
    assert baseline.mean == pytest.approx(np.mean(scores), abs=1e-6)
    expected = np.std(scores, ddof=1) if len(scores) > 1 else 0.0
    assert baseline.spread == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(SCORES, st.data())
def test_taking_a_score_back_leaves_no_trace(scores, data):
    """A revoked score is as if it had never been promoted."""
    index = data.draw(st.integers(0, len(scores) - 1))
    left = scores[:index] + scores[index + 1 :]
    assert of(*left) == sums(*scores).minus(scores[index]).baseline


def test_a_score_like_the_players_others_is_not_flagged():
    """The control."""
    assert () == findings(1_040, player=of(1_000, 1_020, 980, 1_010, 990))


def test_V07_an_outlier_is_measured_without_itself():
    """Ten runs and one far above: inside its own sample z could not pass 2.85, outside it is 80."""
    [finding] = findings(5_000, player=of(*[1_000, 1_020, 980, 1_010, 990] * 2))
    assert (Reason.ANOMALY_PLAYER, 10) == (finding.reason, finding.sample_size)
    assert finding.value == pytest.approx(80, abs=0.5)


def test_the_spread_has_a_floor():
    """A player who always scores the same may score a little better."""
    steady = of(*[1_000] * 8)
    assert () == findings(1_150, player=steady)
    assert findings(1_160, player=steady)


def test_V06_a_newcomer_is_measured_against_the_population():
    """Below five promoted runs the population speaks, and at record level the newcomer is held."""
    population = of(*[800, 1_000, 1_200] * 10)
    [finding] = findings(5_000, player=of(900, 950), population=population)
    assert Reason.ANOMALY_POPULATION == finding.reason
    assert () == findings(1_300, player=of(900, 950), population=population)


def test_V06_before_there_is_a_population_the_prior_speaks():
    """Mean 1,000 and spread 500: 2,500 is the edge of three deviations."""
    assert () == findings(2_500)
    [finding] = findings(2_510)
    assert 0 == finding.sample_size


def test_only_a_better_score_is_suspicious():
    """A bad day is no finding; on an ascending board lower is better."""
    history = of(*[5_000] * 8)
    assert () == findings(0, player=history)
    assert findings(0, player=history, order=Order.ASCENDING)
    assert () == findings(10_000, player=history, order=Order.ASCENDING)
