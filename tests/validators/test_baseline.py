"""Baselines: that each summary is that of the scores themselves, whatever came, left or was filled in again."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.judging import PLAYER_RECENT, POPULATION_RECENT
from policies.vocabulary import SCORE_LIMIT
from validators.baseline import (
    EMPTY,
    NO_EXTREMES,
    POPULATION,
    Baseline,
    PromotedScore,
    RunningBaseline,
    ScoreExtremes,
    Sums,
    extremes_of,
    is_population,
    population_of,
    recent_of,
    running_baseline_of,
    subjects_of,
)

SIZE = 3
SCORED = st.builds(PromotedScore, st.integers(0, 5), st.integers(0, 10**6), st.integers(-9, 9))
SETS = st.lists(SCORED, max_size=8, unique_by=lambda scored: scored.seq)


def summary(scores: Sequence[PromotedScore], size: int = SIZE) -> Baseline:
    """What a baseline of these scores says, from the scores and nothing else."""
    values = [scored.score for scored in scores]
    if not values:
        return EMPTY
    mean = statistics.mean(values)
    newest = tuple(scored.score for scored in sorted(scores)[-size:])
    squares = sum((value - mean) ** 2 for value in values)
    return Baseline(len(values), mean, pytest.approx(squares), newest, min(values), max(values))


@settings(deadline=None)
@given(SETS)
def test_a_baseline_is_the_summary_of_its_scores_in_whichever_order_they_came(scores: list[PromotedScore]):
    """All of them count, the newest by their time are kept, and no more of them than there is room for."""
    backwards = RunningBaseline(SIZE)
    for scored in scores:
        backwards = backwards.plus(scored)
    for running in (backwards, running_baseline_of(scores, SIZE)):
        assert summary(scores) == running.baseline
        assert len(running.recent) <= SIZE
        assert not running.has_gap


@settings(deadline=None)
@given(SETS.filter(bool), st.data())
def test_a_revoked_score_leaves_what_is_known_or_says_that_it_is_not(
    scores: list[PromotedScore], data: st.DataObject
):
    """Counts and moments are right at once; where the newest or the ends may be unknown there is a gap until it is filled."""
    gone = data.draw(st.sampled_from(scores))
    rest = [scored for scored in scores if scored is not gone]
    due, left = summary(rest), running_baseline_of(scores, SIZE).minus(gone)
    assert (due.count, due.mean, due.squares) == (
        left.baseline.count,
        left.baseline.mean,
        left.baseline.squares,
    )
    assert left.has_gap or left.baseline == due
    values = [scored.score for scored in rest]
    ends = ScoreExtremes(min(values), max(values)) if values else NO_EXTREMES
    filled = left.filled(reversed(rest), ends)
    assert (due, False, SIZE) == (filled.baseline, filled.has_gap, filled.size)
    assert len(filled.recent) <= SIZE


def test_a_gap_stays_until_it_is_filled():
    """What is added or taken away in between does not close it; and where everything is known there is none."""
    scores = [PromotedScore(at, at, score) for at, score in enumerate([0, 5, 6, 7, 9])]
    known = running_baseline_of(scores, SIZE)
    assert [True, False, True, True, True] == [known.minus(scored).has_gap for scored in scores]
    assert known.minus(scores[0]).minus(scores[1]).has_gap
    gap = known.minus(scores[4])
    more = PromotedScore(9, 9, 6)
    assert [True, True] == [each.has_gap for each in (gap.plus(more), gap.plus(more).minus(more))]


def test_of_two_equal_scores_the_one_that_was_revoked_goes():
    """They are told apart by time and number."""
    scores = [PromotedScore(1, 1, 5), PromotedScore(1, 2, 5), PromotedScore(1, 3, 5)]
    assert (scores[0], scores[2]) == running_baseline_of(scores, SIZE).minus(scores[1]).recent


def test_sums_are_exact_after_the_largest_scores_came_and_went():
    """One huge score that was revoked leaves no rounding behind."""
    sums = Sums().plus(7).plus(SCORE_LIMIT).plus(-SCORE_LIMIT).plus(10)
    left = sums.minus(SCORE_LIMIT).minus(-SCORE_LIMIT)
    assert (Sums(2, 17, 149), Baseline(2, 8.5, 4.5)) == (left, left.baseline)
    assert EMPTY == left.minus(7).minus(10).baseline


@pytest.mark.parametrize("scores", [[4], [4, 4], [4, 7], [1, 2, 3, 4, 100]])
def test_the_spread_is_the_samples_standard_deviation(scores: list[int]):
    """Of one score there is none, and nothing is divided by zero."""
    sums = Sums()
    for score in scores:
        sums = sums.plus(score)
    due = statistics.stdev(scores) if len(scores) > 1 else 0.0
    assert pytest.approx(due) == sums.baseline.spread
    assert EMPTY.spread == 0.0


def test_the_ends_of_several_sets_are_those_of_all():
    """A set without any scores has no part in them; 0 is a score like any other."""
    parts = [ScoreExtremes(0, 4), NO_EXTREMES, ScoreExtremes(-3, -3)]
    assert (ScoreExtremes(-3, 4), ScoreExtremes(0, 4), NO_EXTREMES) == (
        extremes_of(parts),
        extremes_of(parts[:2]),
        extremes_of([NO_EXTREMES]),
    )
    assert [ScoreExtremes(-5, 4), ScoreExtremes(0, 9)] == [parts[0].plus(-5), parts[0].plus(9)]


def test_a_score_is_learnt_of_its_player_its_build_and_the_board():
    """No player is taken for a population, and a population's baseline keeps more of the newest scores."""
    subjects = subjects_of("ada", "1.2")
    assert ("ada", population_of("1.2"), POPULATION) == subjects
    assert [False, True, True] == [is_population(subject) for subject in subjects]
    assert [PLAYER_RECENT, POPULATION_RECENT, POPULATION_RECENT] == [recent_of(each) for each in subjects]
    assert population_of("ada") != "ada"
