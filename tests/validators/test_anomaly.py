"""Anomaly: the z-score against the player's own history, the population, or the prior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.fields import SortOrder
from policies.judging import PLAYER_RECENT, Anomaly, Bounds, Prior, Transform
from policies.vocabulary import Reason
from tests.support.submissions import a_policy, a_submission
from validators.anomaly import anomaly
from validators.baseline import EMPTY, Baseline, PromotedScore, RunningBaseline, Sums
from validators.judge import judge
from validators.scale import middle_of, robust_middle
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
    return tuple(anomaly(a_submission(score=score), a_policy(**policy), History(player, population)))


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
    assert findings(0, player=history, order=SortOrder.ASCENDING)
    assert () == findings(10_000, player=history, order=SortOrder.ASCENDING)


def known(*scores: int, keep: int = PLAYER_RECENT) -> Baseline:
    """What these promoted scores teach, in their order."""
    learnt = RunningBaseline(keep)
    for number, score in enumerate(scores):
        learnt = learnt.plus(PromotedScore(number, number, score))
    return learnt.baseline


def rule(**changes) -> Anomaly:
    fields = {"threshold": 3.0, "minimum_history": 5, "minimum_population": 10, "spread_floor": 1e-9}
    return Anomaly(**(fields | {"prior": Prior(mean=1_000.0, spread=500.0)} | changes))


def gain(score: int, *scores: int, **policy) -> float:
    """The value of the one finding."""
    [finding] = findings(score, player=known(*scores), **policy)
    return finding.value


def test_one_great_run_hides_no_other():
    """Nine runs near 1,000 and a great one, all promoted: of mean and deviation 3,000 would be 1.3, of median and MAD 128."""
    scores = [1_000, 1_020, 980, 1_010, 990, 1_000, 1_020, 980, 1_010, 4_000]
    assert () == findings(3_000, player=of(*scores))
    assert 3_000 > known(*scores).mean + known(*scores).spread
    [finding] = findings(3_000, player=known(*scores))
    assert (Reason.ANOMALY_PLAYER, {"centre": 1_005.0, "limit": 1_155.0}) == (finding.reason, finding.detail)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 10**4), min_size=8, max_size=32),
    st.integers(2 * 10**4, 10**6),
    st.integers(1, 1_000),
    st.integers(0, 10**6),
)
def test_a_robust_score_does_not_depend_on_units(scores, score, factor, shift):
    """Scores in other units, or from another zero, give the same number of deviations."""
    assume(robust_middle(tuple(scores), Transform.NONE).spread > 0)
    policy = {"anomaly": rule(threshold=0.01)}
    changed = [factor * each + shift for each in (score, *scores)]
    assert gain(score, *scores, **policy) == pytest.approx(gain(*changed, **policy), abs=2e-3, rel=1e-3)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=32), st.integers(2, 10**4))
def test_logarithms_see_ratios(scores, factor):
    """With `log`, one point more counted, what is so many times as much is as far away whatever the unit."""
    values = [factor * (each + 1) - 1 for each in scores]
    near, far = (robust_middle(tuple(each), Transform.LOG) for each in (scores, values))
    assert far.spread == pytest.approx(near.spread, abs=1e-9)
    assert far.centre - near.centre == pytest.approx(np.log(factor), abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=128))
def test_the_middle_is_numpys(scores):
    """Median, and median of the absolute deviations over 0.6745, with the factor of its size."""
    middle = robust_middle(tuple(scores), Transform.NONE)
    deviation = np.median(np.abs(np.array(scores) - np.median(scores)))
    assert np.median(scores) == middle.centre
    assert middle.spread >= deviation / 0.6745 - 1e-9
    assert middle.spread == pytest.approx(deviation / 0.6745, rel=0.5)
    if len(scores) > 9:
        assert middle.spread == pytest.approx(
            deviation / 0.6745 * len(scores) / (len(scores) - 0.8), rel=1e-9
        )


def test_where_the_mad_is_0_the_standard_deviation_speaks():
    """Most runs of one score: the median deviation is 0, the spread of Welford's triple is not."""
    scores = (1_000,) * 8 + (1_300, 700)
    middle = middle_of(known(*scores), Transform.NONE)
    assert (1_000.0, of(*scores).spread) == (middle.centre, middle.spread)


def test_ranks_ask_who_is_better_and_not_by_how_much():
    """Better than all of 32, however little, is 2.08 deviations; fourth among them is less; ties count half."""
    policy = {"anomaly": rule(transform=Transform.RANK, threshold=1.3, minimum_history=10)}
    scores = [*range(100, 132)]
    assert gain(132, *scores, **policy) == gain(9_999, *scores, **policy) == pytest.approx(2.078, abs=2e-3)
    assert gain(131, *scores, **policy) == pytest.approx(1.827, abs=2e-3)  # the 32½th of 33
    assert () == findings(127, player=known(*scores), **policy)
    assert gain(99, *scores, order=SortOrder.ASCENDING, **policy) == gain(132, *scores, **policy)


def test_V06_a_newcomer_is_measured_by_the_build_that_was_played():
    """A build with a population of its own is the reference; a new one borrows the board's."""
    easy, board = (
        known(*[4_000, 4_200, 4_400] * 10, keep=128),
        known(*[800, 1_000, 1_200] * 10 + [9_000], keep=128),
    )
    found = [
        tuple(anomaly(a_submission(score=4_500), a_policy(), History(population=board, build=build)))
        for build in (easy, known(4_000))
    ]
    assert [[], [Reason.ANOMALY_POPULATION]] == [[each.reason for each in some] for some in found]


@pytest.mark.parametrize(("order", "record"), [(SortOrder.DESCENDING, 1_300), (SortOrder.ASCENDING, 700)])
def test_V06_a_newcomers_record_is_found_however_near_it_is(order: SortOrder, record: int):
    """Better than every promoted score of the board by one step; as good is no finding, and neither is it a regular's."""
    board = known(*[800, 1_000, 1_200, 1_300, 700] * 10, keep=128)
    better = record - 10 if order is SortOrder.ASCENDING else record + 10
    [finding] = findings(better, population=board, order=order)
    assert (Reason.ANOMALY_RECORD, better, 50) == (finding.reason, finding.value, finding.sample_size)
    assert () == findings(record, population=board, order=order)
    assert () == findings(better, player=known(*[900, 1_000, 1_100] * 3), population=board, order=order)


def test_the_first_records_of_a_new_board_are_nobodys_finding():
    """Whoever plays first is ahead of all: from `minimum_population` promoted runs on, a record says something."""
    scores = [800, 1_200] * 4 + [1_300]
    assert () == findings(1_310, population=known(*scores))
    [finding] = findings(1_310, population=known(*scores, 700))
    assert (Reason.ANOMALY_RECORD, 10) == (finding.reason, finding.sample_size)


def test_V04_what_is_new_to_a_player_has_a_ceiling():
    """Who crept up to where nobody is stays within the own history, and is beyond the board's; what was let in once is not asked again."""
    board = known(*[800, 1_000, 1_200] * 30, keep=128)
    crept = [3_000, 3_300, 2_700, 3_200, 2_900]
    assert [Reason.ANOMALY_POPULATION] == [
        each.reason for each in findings(3_400, player=known(*crept), population=board)
    ]
    assert () == findings(3_300, player=known(*crept), population=board)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"anomaly": rule(transform="log"), "score": Bounds(minimum=-10, maximum=100, step=10)},
            "score.minimum",
        ),
        ({"anomaly": rule(transform="log", prior=Prior(mean=-1.0, spread=1.0))}, "prior.mean"),
    ],
)
def test_logarithms_of_what_has_none_are_refused(changes, told):
    """A scale that the scores or the prior have no place on is said to be the fault."""
    with pytest.raises(ValueError, match=told):
        a_policy(**changes)


@pytest.mark.parametrize("score", [-1, -10, -(2**53) + 1])
def test_a_score_below_what_has_a_logarithm_is_refused_like_any_other(score):
    """Any client can claim one: the bounds find it, and no validator after them fails on it."""
    judgement = judge(
        a_submission(score=score), a_policy(anomaly=rule(transform="log")), History(), digest="sha256:p"
    )
    assert Reason.SCORE_BOUNDS is judgement.refusal.reason


def test_logarithms_of_a_history_from_before_they_were_asked_for():
    """A policy may change under promoted scores: those below 0 count as 0, and what is far above is found."""
    below = known(*range(-40, -20), 5, 6, 7)
    told = findings(9_000, player=below, population=below, anomaly=rule(transform="log"))
    assert [Reason.ANOMALY_PLAYER, Reason.ANOMALY_POPULATION] == [each.reason for each in told]


@pytest.mark.parametrize(
    "changes",
    [
        {"prior": {"mean": 0.0, "spread": 1e200}},
        {"prior": {"mean": 1e300, "spread": 1.0}},
        {"spread_floor": 1e-300},
    ],
)
def test_numbers_that_no_score_comes_near_are_refused(changes):
    """They overflow where they are squared, or divide to infinity, which the ledger cannot hold."""
    with pytest.raises(ValueError, match=r"(less|greater) than or equal to"):
        rule(**changes)


@pytest.mark.parametrize(
    ("threshold", "history", "population", "told"),
    [
        (4.0, 8, 50, "1.49"),
        (2.1, 1_000, 1_000, "2.08"),
        (1.5, 8, 50, "minimum_history"),
        (1.5, 20, 5, "minimum_population"),
    ],
)
def test_a_threshold_that_ranks_never_reach_is_refused(threshold, history, population, told):
    """With what can be reached by so many scores; the same numbers are taken without ranks."""
    numbers = {"threshold": threshold, "minimum_history": history, "minimum_population": population}
    with pytest.raises(ValueError, match=told):
        rule(transform="rank", **numbers)
    assert Transform.NONE is rule(**numbers).transform
    assert rule(transform="rank", **(numbers | {"threshold": 0.9})).threshold < 1


@pytest.mark.parametrize(("score", "reasons"), [(1_100, []), (1_140, []), (1_200, [Reason.ANOMALY_PLAYER])])
def test_M05_a_floor_of_points_is_points_on_a_scale_of_logarithms_too(score, reasons):
    """A steady player on a log board: three floors of 50 points above 1,000 may come, four are found."""
    known = of(*[1_000] * 12)
    told = findings(
        score, player=known, population=of(*[900, 5_000] * 20), anomaly=rule(transform="log", spread_floor=50)
    )

    assert reasons == [each.reason for each in told]
