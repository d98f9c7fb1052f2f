"""Drift: the CUSUM over a player's verified bests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fields import SortOrder
from policies.judging import Drift, Transform
from policies.vocabulary import Reason
from tests.support.submissions import a_policy, a_submission
from tests.validators.test_anomaly import known, rule
from validators.anomaly import anomaly
from validators.baseline import Baseline, PromotedScore, RunningBaseline
from validators.bests import merits
from validators.drift import chart_of, drift
from validators.scale import middle_of
from validators.submission import History

EARLY = (1_000, 1_100, 900, 1_050, 950)
POLICY = a_policy(anomaly=rule(spread_floor=50.0))


def findings(score: int, *scores: int, policy=POLICY):
    return tuple(drift(a_submission(score=score), policy, History(known(*scores))))


@given(st.integers(0, 10**6), st.integers(0, 26))
def test_a_constant_series_adds_up_to_nothing(score, length):
    """Who always scores the same has a chart at 0, whatever is chosen."""
    policy = a_policy(drift=Drift(slack=0.0, decision=0.1), anomaly=rule())
    assert 0.0 == chart_of(merits((score,) * (5 + length), policy), 5, policy).total
    assert () == findings(score, *(score,) * (5 + length), policy=policy)


def test_it_is_pages_sum_of_bests():
    """Median 1,000 and a spread of 89: 1,300, 1,400 and 1,500 add up what they have above three spreads each."""
    spread = 50 / 0.6745 * 1.206
    values = merits((*EARLY, 1_300, 800, 1_400, 1_250, 1_500), POLICY)
    due = sum(max(0.0, gain / spread - 3) for gain in (300, 400, 500))
    chart = chart_of(values, 5, POLICY)
    assert (3, pytest.approx(due)) == (chart.bests, chart.total)


def test_a_best_that_is_none_and_one_within_the_slack_change_nothing():
    """Equalling the best is no climb, however often; and no small step is credit for a leap that comes later."""
    spread = 50 / 0.6745 * 1.206
    once, often = (chart_of(merits((*EARLY, *[1_300] * times), POLICY), 5, POLICY) for times in (1, 4))
    assert once == often
    chart = chart_of(merits((*EARLY, 1_110, 1_120, 1_500), POLICY), 5, POLICY)
    assert (3, pytest.approx(500 / spread - 3)) == (chart.bests, chart.total)


def test_who_always_scored_the_same_climbs_by_spreads_of_the_boards_floor():
    """Without it the smallest gain would be infinitely many spreads."""
    chart = chart_of(merits((1_000,) * 5 + (1_100, 1_200), POLICY), 5, POLICY)
    assert (2, pytest.approx(200 / 50 - 3)) == (chart.bests, chart.total)


def climb(seed: int, *, step: float, decoys: int = 0) -> int | None:
    """How many runs until the drift of somebody shows who is always `step` deviations above the own baseline, promoted each time."""
    policy = a_policy(anomaly=rule(minimum_history=8, spread_floor=10.0, threshold=4.0))
    draw, learnt = np.random.default_rng(seed), RunningBaseline(32)
    for run in range(40):
        middle = middle_of(learnt.baseline, Transform.NONE)
        is_honest = run < 8 or (run % (decoys + 1))
        score = int(draw.normal(1_000, 100) if is_honest else middle.centre + step * middle.spread)
        history = History(learnt.baseline)
        if run >= 8:
            assert () == tuple(anomaly(a_submission(score=score), policy, history)) or is_honest
        if any(drift(a_submission(score=score), policy, history)):
            return run - 7
        learnt = learnt.plus(PromotedScore(run, run, score))
    return None


@pytest.mark.parametrize("seed", range(6))
def test_V04_a_boiling_frog_is_found_within_eight_runs(seed: int):
    """Each run 2.9 deviations above the own baseline, never an anomaly; control: one deviation above is let be."""
    found = climb(seed, step=2.9)
    assert found is not None
    assert found <= 8
    assert climb(seed, step=0.8) is None


def test_low_runs_in_between_hide_nothing():
    """The same bests with bad runs among them give the same chart."""
    bests = (1_300, 1_400, 1_450)
    hidden = tuple(score for best in bests for score in (best, 500, 700))
    [plain], [mixed] = findings(1_600, *EARLY, *bests), findings(1_600, *EARLY, *hidden)
    assert (Reason.DRIFT, plain.value) == (mixed.reason, mixed.value)


def test_only_a_best_is_judged():
    """A run that is no best of the newest says nothing, however far the player has come."""
    bests = (1_200, 1_350, 1_500)
    assert findings(2_000, *EARLY, 1_200, 1_350, 1_450, 1_600) != ()
    assert () == findings(1_500, *EARLY, *bests)


def test_one_leap_is_no_drift():
    """A single best, as far away as it may be, is the anomaly's matter."""
    assert () == findings(10_000, *EARLY)
    assert () == findings(10_000, *EARLY, 9_000)


def test_too_little_is_known_of_a_newcomer():
    """Below the early scores there is nothing to measure by."""
    assert () == findings(9_000, *EARLY[:4])


def test_what_was_looked_into_is_not_reported_for_ever():
    """Once a best beyond the decision was promoted, the chart begins again from there."""
    climbed = (1_300, 1_500, 1_700, 1_900)
    assert findings(1_900, *EARLY, *climbed[:3])
    assert () == findings(1_910, *EARLY, *climbed)


def test_the_chart_begins_again_with_the_best_that_was_promoted():
    """It is among the scores to measure from, and the one to beat: what comes after and is lower is no best."""
    restarted = merits((*EARLY, 1_300, 1_500, 1_700, 1_900, 1_800), POLICY)
    chart = chart_of(restarted, 5, POLICY)
    assert (0.0, 0, 1_500.0) == (chart.total, chart.bests, chart.early.centre)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5_000), min_size=5, max_size=20), st.integers(0, 5_000))
def test_lower_is_better_on_an_ascending_board(scores, score):
    """Turned around, the same series drifts as much."""
    turned = a_policy(anomaly=rule(spread_floor=50.0), order=SortOrder.ASCENDING)
    plain = findings(score, *scores)
    mirrored = findings(5_000 - score, *(5_000 - each for each in scores), policy=turned)
    assert [each.value for each in plain] == [each.value for each in mirrored]


def test_a_series_is_of_the_newest_scores_alone():
    """What is judged is what the baseline has one by one; the candidate is not in it."""
    assert () == tuple(drift(a_submission(score=9_000), POLICY, History(Baseline(40, 1_000.0, 1e6))))
