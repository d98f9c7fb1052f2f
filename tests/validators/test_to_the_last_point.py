"""Where each limit lies, to the last point and millisecond: for a validator, and for what spares it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policies.fields import SortOrder
from policies.judging import (
    PLAYER_RECENT,
    Abandonment,
    Anomaly,
    Bounds,
    Delay,
    Prior,
    Progress,
    SlowMotion,
    StatRange,
    Transform,
    Velocity,
)
from policies.vocabulary import Claim, Expected, Finding, Reason, Severity
from tests.support.submissions import a_policy, a_submission
from validators.abandonment import abandonment, may_be_abandoning
from validators.anomaly import anomaly, may_be_anomalous
from validators.baseline import Baseline, PromotedScore, running_baseline_of
from validators.bests import best_among, best_of, distances_of, is_better, merits, successive_bests
from validators.bounds import bounds, is_playable, may_break_bounds
from validators.clock import clock, may_outpace_the_clock
from validators.delay import delay, may_be_late
from validators.doubt import certain
from validators.drift import may_drift
from validators.probing import may_be_probing, probing
from validators.progress import may_leap, progress
from validators.slow_motion import may_be_slowed, slow_motion
from validators.stats import may_break_stats, stats
from validators.submission import History, Submission
from validators.velocity import may_be_fast, velocity

NOBODY = History()
ASCENDING = {"order": "ascending"}


def scored(score: int, *, ticks: int = 600) -> Submission:
    return a_submission(score=score, ticks=ticks, elapsed_s=100)


def after(elapsed_ms: int, *, ticks: int = 600) -> Submission:
    run = a_submission(ticks=ticks)
    return run._replace(received_at_ms=run.issued_at_ms + elapsed_ms)


def short(score: int) -> Submission:
    return scored(score, ticks=30)


def counted(kills: int) -> Submission:
    return a_submission(stats={"kills": kills})


def of(*scores: int) -> Baseline:
    return running_baseline_of((PromotedScore(at, at, each) for at, each in enumerate(scores)), 99).baseline


VELOCITY = Velocity(points_per_second=100.0, slack_s=2.0)
PACE = {"velocity": VELOCITY, "score": Bounds(minimum=0, maximum=10_000)}
FROM_500, FROM_BELOW_0 = (PACE | {"score": Bounds(minimum=at, maximum=10_000)} for at in (500, -500))
SLOW = {"slow_motion": SlowMotion(ratio=1.5, least_s=10)}
KILLS = {
    "stats": {"kills": StatRange(minimum=2, maximum=8, step=3)},
    "replay": None,
    "builds": {},
    "writes": "open",
}
PRIOR = {"anomaly": Anomaly(threshold=3.0, minimum_history=5, minimum_population=10, spread_floor=50.0, prior=Prior(mean=1_000.0, spread=500.0))}  # fmt: skip

LIMITS: list[tuple[Any, Any, dict[str, Any], Callable[[int], Submission], dict[int, bool]]] = [
    (bounds, may_break_bounds, {"score": Bounds(minimum=-50, maximum=100, step=5)}, scored,
     {-55: True, -51: True, -50: False, -49: True, -45: False, 0: False, 99: True, 100: False, 101: True, 105: True}),
    (stats, may_break_stats, KILLS, counted, {-1: True, 1: True, 2: False, 3: True, 5: False, 8: False, 9: True, 11: True}),
    (velocity, may_be_fast, PACE, scored, {999: False, 1_000: False, 1_001: True}),
    (velocity, may_be_fast, PACE, short, {99: False, 100: False, 101: True}),
    (velocity, may_be_fast, FROM_500, scored, {1_499: False, 1_500: False, 1_501: True}),
    (velocity, may_be_fast, FROM_BELOW_0, scored, {999: False, 1_000: False, 1_001: True}),
    (velocity, may_be_fast, PACE | ASCENDING, scored, {1_001: False, 9_999: False}),
    (velocity, may_be_fast, PACE | {"velocity": Velocity()}, scored, {1_001: False, 9_999: False}),
    (clock, may_outpace_the_clock, PACE, after, {7_999: True, 8_000: False, 8_001: False}),
    (delay, may_be_late, {"delay": Delay(most_s=5)}, after, {14_999: False, 15_000: False, 15_001: True}),
    (slow_motion, may_be_slowed, SLOW, after, {14_999: False, 15_000: True, 15_001: True}),
    (slow_motion, may_be_slowed, SLOW, lambda ticks: after(90_000, ticks=ticks), {599: False, 600: True, 601: True}),
    (anomaly, may_be_anomalous, PRIOR, scored, {2_499: False, 2_500: False, 2_501: True}),
    (anomaly, may_be_anomalous, PRIOR | ASCENDING, scored, {-501: True, -500: False, -499: False, 2_501: False}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "prepare", "changes", "run_of", "values"),
    LIMITS,
    ids=[f"{check.__name__}-{at}" for at, (check, *_) in enumerate(LIMITS)],
)
def test_a_limit_belongs_to_what_is_allowed(
    check: Any, prepare: Any, changes: dict[str, Any], run_of: Any, values: dict[int, bool]
):
    """A run on the limit is found by nobody, one beside it is; what spares the validator spares it for the same runs."""
    policy = a_policy(**changes)
    may_find = prepare(policy)
    assert values == {value: bool([*check(run_of(value), policy, NOBODY)]) for value in values}
    assert values == {value: may_find(run_of(value), NOBODY) for value in values}


RUNS = {"abandonment": Abandonment(least_runs=5, least_share=0.5)}


@pytest.mark.parametrize(
    ("opened", "submitted", "may", "is_found"),
    [
        (4, 0, False, False),
        (5, 2, True, True),
        (5, 3, True, False),
        (6, 3, True, False),
        (7, 3, True, True),
        (None, None, False, False),
        (None, 0, False, False),
        (9, None, True, False),
    ],
)
def test_few_submitted_runs_are_found_from_a_number_on(
    opened: Any, submitted: Any, *, may: bool, is_found: bool
):
    """From the least runs on, below the least share of them; what the index could not tell finds nobody."""
    run, policy = a_submission()._replace(runs_opened=opened, runs_submitted=submitted), a_policy(**RUNS)
    assert (may, is_found) == (
        may_be_abandoning(policy)(run, NOBODY),
        bool(abandonment(run, policy, NOBODY)),
    )


@pytest.mark.parametrize("refusals", [0, 1])
def test_any_refusal_that_is_told_is_found(refusals: int):
    """The index tells of refusals only where they were too many."""
    history, policy = History(refusals=refusals), a_policy()
    assert [bool(refusals)] * 2 == [
        may_be_probing(policy)(a_submission(), history),
        bool(probing(a_submission(), policy, history)),
    ]


@pytest.mark.parametrize(
    ("history", "may"),
    [
        (NOBODY, False),
        (History(player=of(*[1_000] * 4)), False),
        (History(player=of(*[1_000] * 5)), True),
        (History(population=of(*[1_000] * 9)), False),
        (History(population=of(*[1_000] * 10)), True),
        (History(build=of(*[1_000] * 9)), False),
        (History(build=of(*[1_000] * 10)), True),
    ],
)
def test_scores_are_compared_with_others_from_a_number_on(history: History, *, may: bool):
    """A newcomer of a new board is measured by the prior alone, and by nothing without one."""
    assert may is may_be_anomalous(a_policy(**PRIOR))(scored(1_000), history)
    without = {"anomaly": PRIOR["anomaly"].model_copy(update={"prior": None})}
    assert may is may_be_anomalous(a_policy(**without))(scored(9_000), history)


def test_a_prior_is_for_newcomers_of_new_boards():
    """Where there is none, nothing is found; a player with a history is measured by that alone until others have one."""
    without = {"anomaly": PRIOR["anomaly"].model_copy(update={"prior": None})}
    assert [] == [*anomaly(scored(9_000), a_policy(**without), NOBODY)]
    known = History(player=of(8_000, 9_000, 8_500, 9_500, 8_800))
    assert [] == [*anomaly(scored(9_600), a_policy(**PRIOR), known)]
    [found] = anomaly(scored(9_600), a_policy(**PRIOR), NOBODY)
    assert (Reason.ANOMALY_POPULATION, 0) == (found.reason, found.sample_size)


@pytest.mark.parametrize(
    ("build", "population", "sample"),
    [(10, 30, 10), (9, 30, 30), (9, 10, 10), (9, 9, 0), (30, 0, 30)],
)
def test_a_newcomer_is_measured_by_the_build_or_the_board_or_the_prior(
    build: int, population: int, sample: int
):
    """The first that has enough scores, and the prior where neither has."""
    history = History(build=_many(build), population=_many(population))
    found = [*anomaly(scored(9_000), a_policy(**PRIOR), history)]
    assert [sample] == [each.sample_size for each in found if each.reason is Reason.ANOMALY_POPULATION]
    assert (population >= 10) == (Reason.ANOMALY_RECORD in {each.reason for each in found})


def _many(count: int) -> Baseline:
    return of(*(900 + 20 * (at % 11) for at in range(count)))


@pytest.mark.parametrize("early", [3, 40])
def test_bests_add_up_once_there_is_a_beginning(early: int):
    """It is the minimum history, but no more than half of what is kept of a player."""
    policy = a_policy(anomaly=Anomaly(minimum_history=early))
    least = min(early, PLAYER_RECENT // 2)
    told = [
        may_drift(policy)(a_submission(), History(player=of(*range(count)))) for count in (least - 1, least)
    ]
    assert [False, True] == told


@pytest.mark.parametrize(("order", "better"), [("ascending", 99), ("descending", 101)])
def test_only_a_best_can_leap(order: str, better: int):
    """Neither an equal score nor a first one."""
    policy, history = a_policy(order=order), History(player=of(100, 100))
    told = [may_leap(policy)(scored(score), history) for score in (better, 100, 200 - better)]
    assert ([True, False, False], False) == (told, may_leap(policy)(scored(better), NOBODY))


ROUNDED: list[tuple[Any, Submission, dict[str, Any], History, float, Expected, dict[str, float]]] = [
    (clock, after(1_001, ticks=3_601), {"velocity": Velocity(slack_s=0.0116)}, NOBODY,
     60.017, Expected(at_most=1.013, unit="s of play since the ticket"), {}),
    (delay, after(200_000, ticks=3_601), {"delay": Delay(most_s=1)}, NOBODY,
     139.983, Expected(at_most=1, unit="s from its end to its submission"), {}),
    (slow_motion, after(200_000, ticks=3_601), {"slow_motion": SlowMotion(ratio=3)}, NOBODY,
     3.332, Expected(at_most=3, unit="s since the ticket for each s of play"), {"played_s": 60.017}),
    (velocity, scored(2_000, ticks=601), PACE, NOBODY, 199.667, Expected(at_most=100, unit="points per second"), {}),
    (abandonment, a_submission()._replace(runs_opened=7, runs_submitted=2), RUNS, NOBODY,
     0.2857, Expected(at_least=0.5, unit="of the runs opened in a day"), {"opened": 7, "submitted": 2}),
    (progress, scored(3_000), {"progress": Progress(times=3)}, History(player=of(1_000, 1_100, 1_230)),
     13.615, Expected(at_most=3, unit="largest steps of the player's own"), {"gain": 1_770}),
    (anomaly, scored(3_001), {"anomaly": Anomaly(threshold=2.0, minimum_population=99, prior=Prior(mean=1_000.25, spread=700.0))},
     NOBODY, 2.858, Expected(at_most=2.0, unit="standard deviations"), {"centre": 1_000.2, "limit": 2_400.2}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "run", "changes", "history", "value", "expected", "detail"),
    ROUNDED,
    ids=[each[0].__name__ for each in ROUNDED],
)
def test_a_finding_is_told_in_few_digits(
    check: Any, run: Any, changes: dict[str, Any], history: Any, value: float, expected: Any, detail: Any
):
    """Thousandths of seconds and deviations, ten thousandths of a share, tenths of points."""
    [found] = check(run, a_policy(**changes), history)
    assert (value, expected, detail) == (found.value, found.expected, dict(found.detail))


RANKED = {"anomaly": Anomaly(threshold=1.0, minimum_history=9, minimum_population=99, transform=Transform.RANK, spread_floor=10.0)}  # fmt: skip


@pytest.mark.parametrize(("order", "sign"), [("descending", 1), ("ascending", -1)])
def test_a_place_is_told_as_a_deviation(order: str, sign: int):
    """By Blom's formula over the newest scores and this one: an equal score is half ahead. Without scores kept, by moments."""
    policy = a_policy(order=order, **RANKED)
    player = of(*(sign * each for each in (1, 2, 3, 4, 5, 6, 7, 8, 9, 9)))

    def told(score: int, player: Baseline) -> list[tuple[Any, ...]]:
        found = anomaly(scored(sign * score), policy, History(player=player))
        return [(each.value, each.expected, each.sample_size, dict(each.detail)) for each in found]

    by_rank = Expected(at_most=1.0, unit="standard deviations by rank")
    assert [(1.593, by_rank, 10, {"better": 0})] == told(10, player)
    assert [(1.061, by_rank, 10, {"better": 0})] == told(9, player)
    assert [] == told(8, player)
    unkept = Baseline(count=10, mean=sign * 5.0, squares=900.0)
    by_points = Expected(at_most=1.0, unit="standard deviations")
    detail = {"centre": sign * 5.0, "limit": sign * 15.0}
    assert [(2.0, by_points, 10, detail)] == told(25, unkept)


@pytest.mark.parametrize(
    ("claim", "replayed", "is_taken"),
    [
        (Claim(1, 1, {"kills": 0, "coins": 0}), True, True),
        (Claim(1, 0, {"kills": 0, "coins": 0}), True, False),
        (Claim(1, 3_600, {"coins": 1, "kills": 1}), True, True),
        (Claim(1, 3_601, {"kills": 0, "coins": 0}), True, False),
        (Claim(1, 9, {"kills": 0, "more": 0}), True, False),
        (Claim(1, 9, {"kills": 0}), True, False),
        (Claim(1, 9, {"kills": 0, "coins": 0, "more": 0}), True, False),
        (Claim(1, 0, {"any": 5}), False, True),
        (Claim(1, -1, {}), False, False),
    ],
)
def test_a_claim_that_no_replay_takes_is_not_judged(claim: Claim, *, replayed: bool, is_taken: bool):
    """Its ticks from 1 to the most, and exactly its statistics; a board without replays takes any that are no time back."""
    changes = {"replay": {"maximum_ticks": 3_600, "stats": ("kills", "coins")}} if replayed else KILLS
    assert is_taken is is_playable(claim, a_policy(**changes))


def test_what_is_doubted_is_judged_at_both_ends_of_the_doubt():
    """An honest run once, a certain one once, and a doubted rejection three times: what rejects at both ends rejects."""
    asked: list[int] = []

    def rejecting_until(last_ms: int) -> Callable[[Submission], list[Finding]]:
        def find(run: Submission) -> list[Finding]:
            asked.append(run.received_at_ms - 1_000_000)
            severity = Severity.REJECT if run.received_at_ms - 1_000_000 <= last_ms else Severity.NOTE
            return [Finding(Reason.LATE, 1, Expected(), severity=severity, detail={"kept": 1})]

        return find

    run = a_submission(elapsed_s=25)
    cases = [(0, 99_000, Severity.REJECT), (400, 0, Severity.NOTE), (400, 25_400, Severity.REJECT), (400, 25_399, Severity.FLAG)]  # fmt: skip
    for error_ms, last_ms, severity in cases:
        [found] = certain(run._replace(clock_error_ms=error_ms), rejecting_until(last_ms))
        doubt = {"clock_error_ms": error_ms} if severity is Severity.FLAG else {}
        assert (severity, {"kept": 1} | doubt) == (found.severity, found.detail)
    assert [25_000, 25_000, 25_000, 24_600, 25_400, 25_000, 24_600, 25_400] == asked


@pytest.mark.parametrize(("order", "best", "others"), [("ascending", 1, (2, 9)), ("descending", 9, (8, 1))])
def test_a_best_is_the_first_in_the_order_of_the_board(order: str, best: int, others: tuple[int, int]):
    """Among some scores, of a baseline, and one after another: an equal one is no better, and any is better than none."""
    policy = a_policy(order=order)
    assert [best] * 2 == [
        best_among((others[0], best, others[1]), policy),
        best_of(of(*others, best), policy),
    ]
    assert None is best_of(Baseline(0, 0.0, 0.0), policy)
    assert [True, True, False, False] == [
        is_better(best, other, policy)
        for other in (*others, best, best + (-1 if order == "ascending" else 1))
    ]
    assert is_better(others[1], None, policy)
    sign = -1 if SortOrder(order) is SortOrder.ASCENDING else 1
    assert [sign * 5.0, sign * 5.0, sign * 4.0] == [*merits((5, 5, 4), policy)]
    bests = successive_bests(merits((5, 5, 5 + sign, 5 - sign, 5 + sign, 5 + 3 * sign), policy))
    assert [sign * 5.0, sign * 5.0 + 1, sign * 5.0 + 3] == [*bests]


@pytest.mark.parametrize(
    ("transform", "scale"),
    [(Transform.NONE, Transform.NONE), (Transform.LOG, Transform.LOG), (Transform.RANK, Transform.NONE)],
)
def test_distances_are_points_or_logarithms(transform: Transform, scale: Transform):
    """Where scores are compared by rank, their distances are points."""
    assert scale is distances_of(a_policy(anomaly=Anomaly(transform=transform, threshold=1.0)))
