"""What each finding tells a moderator: the value, what was expected instead, in which unit, and by how much it is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from policies.judging import Abandonment, Anomaly, Delay, Modes, Progress, SlowMotion, StatRange, Velocity
from policies.limits import Limits
from policies.rules import Rule
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity
from tests.support.submissions import a_policy, a_submission
from validators.abandonment import abandonment
from validators.anomaly import anomaly
from validators.baseline import Baseline, PromotedScore, running_baseline_of
from validators.bounds import bounds
from validators.clock import clock
from validators.delay import delay
from validators.drift import drift
from validators.judge import judge
from validators.probing import probing
from validators.progress import progress
from validators.slow_motion import slow_motion
from validators.stats import stats
from validators.submission import History, Submission
from validators.velocity import velocity

Told = tuple[Reason, float, Expected, int, dict[str, float], str]


def told(findings: Iterable[Finding]) -> list[Told]:
    return [
        (each.reason, each.value, each.expected, each.sample_size, dict(each.detail), each.code)
        for each in findings
    ]


def of(*scores: int) -> Baseline:
    scored = [PromotedScore(at, at, score) for at, score in enumerate(scores)]
    return running_baseline_of(scored, 32).baseline


OPEN = {"writes": "open", "replay": None, "builds": {}}
RUN = a_submission(score=1_000, ticks=3_600, elapsed_s=200.0)
NOBODY = History()
ALIKE = of(*[900, 1_000, 1_100] * 4)
TIMES = {"order": "ascending"}

TOLD: list[tuple[Any, Submission, dict[str, Any], History, list[Told]]] = [
    (
        bounds,
        a_submission(score=10_005),
        {},
        NOBODY,
        [(Reason.SCORE_BOUNDS, 10_005, Expected(0, 10_000, "points"), 0, {"step": 10}, "")],
    ),
    (
        stats,
        a_submission(stats={"kills": 7, "more": 5}),
        OPEN | {"stats": {"kills": StatRange(minimum=1, maximum=5, step=2), "laps": StatRange()}},
        NOBODY,
        [
            (Reason.STATS_BOUNDS, 7, Expected(1, 5, "kills"), 0, {"step": 2}, "kills"),
            (Reason.STATS_NAMES, 0, Expected(1, 1, "statistics of this name"), 0, {}, "laps"),
            (Reason.STATS_NAMES, 1, Expected(0, 0, "statistics of this name"), 0, {}, "more"),
        ],
    ),
    (
        velocity,
        RUN,
        {"velocity": Velocity(points_per_second=16.5)},
        NOBODY,
        [(Reason.VELOCITY_POINTS, 16.667, Expected(at_most=16.5, unit="points per second"), 0, {}, "")],
    ),
    (
        clock,
        RUN._replace(received_at_ms=RUN.issued_at_ms + 50_123),
        {},
        NOBODY,
        [
            (
                Reason.VELOCITY_TIME,
                60.0,
                Expected(at_most=52.123, unit="s of play since the ticket"),
                0,
                {},
                "",
            )
        ],
    ),
    (
        slow_motion,
        RUN,
        {"slow_motion": SlowMotion(ratio=3)},
        NOBODY,
        [
            (
                Reason.SLOW_MOTION,
                3.333,
                Expected(at_most=3, unit="s since the ticket for each s of play"),
                0,
                {"played_s": 60.0},
                "",
            )
        ],
    ),
    (
        delay,
        RUN,
        {"delay": Delay(most_s=100)},
        NOBODY,
        [(Reason.LATE, 140.0, Expected(at_most=100, unit="s from its end to its submission"), 0, {}, "")],
    ),
    (
        abandonment,
        RUN._replace(runs_opened=30, runs_submitted=1),
        {"abandonment": Abandonment(least_runs=20, least_share=0.1)},
        NOBODY,
        [
            (
                Reason.RUNS_ABANDONED,
                0.0333,
                Expected(at_least=0.1, unit="of the runs opened in a day"),
                30,
                {"opened": 30, "submitted": 1},
                "",
            )
        ],
    ),
    (
        probing,
        RUN,
        {"limits": Limits.model_validate({"refused": {"player": 20, "address": 40, "window_s": 600}})},
        History(refusals=23),
        [(Reason.LIMITS_PROBED, 23, Expected(at_most=19, unit="refused claims"), 0, {"window_s": 600}, "")],
    ),
    (
        progress,
        a_submission(score=3_000),
        {"progress": Progress(times=3, points=500)},
        History(player=of(1_000, 1_100, 1_300)),
        [
            (
                Reason.PROGRESS,
                1_700,
                Expected(at_most=500, unit="points beyond the player's best"),
                3,
                {},
                "",
            ),
            (
                Reason.PROGRESS,
                8.5,
                Expected(at_most=3, unit="largest steps of the player's own"),
                3,
                {"gain": 1_700},
                "",
            ),
        ],
    ),
    (
        anomaly,
        a_submission(score=5_000),
        {"anomaly": Anomaly(threshold=4, minimum_history=8, minimum_population=10, spread_floor=500)},
        History(population=ALIKE),
        [
            (
                Reason.ANOMALY_POPULATION,
                8.0,
                Expected(at_most=4, unit="standard deviations"),
                12,
                {"centre": 1_000.0, "limit": 3_000.0},
                "",
            ),
            (Reason.ANOMALY_RECORD, 5_000, Expected(at_most=1_100, unit="points"), 12, {}, ""),
        ],
    ),
    (
        anomaly,
        a_submission(score=100),
        TIMES | {"anomaly": Anomaly(threshold=1, minimum_history=8, minimum_population=10, spread_floor=500)},
        History(population=ALIKE),
        [
            (
                Reason.ANOMALY_POPULATION,
                1.8,
                Expected(at_most=1, unit="standard deviations"),
                12,
                {"centre": 1_000.0, "limit": 500.0},
                "",
            ),
            (Reason.ANOMALY_RECORD, 100, Expected(at_least=900, unit="points"), 12, {}, ""),
        ],
    ),
]


@pytest.mark.parametrize(
    ("check", "run", "policy", "history", "expected"), TOLD, ids=[each[0].__name__ for each in TOLD]
)
def test_a_finding_says_what_was_found_and_what_was_expected(
    check: Any, run: Submission, policy: dict[str, Any], history: History, expected: list[Told]
):
    """A moderator decides by these numbers alone, and explains a decision with them."""
    assert expected == told(check(run, a_policy(**policy), history))


def test_the_finding_of_a_climb_says_how_far_it_went():
    """The sum, the decision it passed, of how many scores, and over how many bests."""
    scores = (900, 950, 1_000, 1_050, 1_100, 1_300, 1_500, 1_700)
    [found] = told(drift(a_submission(score=1_900), a_policy(), History(player=of(*scores))))
    assert (Reason.DRIFT, Expected(at_most=6, unit="standard deviations, added up"), 8, {"bests": 4}, "") == (
        found[0],
        *found[2:],
    )
    assert 6 < found[1] < 20


def test_V01_one_rule_that_is_doubted_makes_no_other_doubted():
    """Both are of one validator and one reason: they are told apart by their names, and by the time that each goes by."""
    rules = (
        Rule(name="adds-up", rule="score == stats.kills * 100"),
        Rule(name="not-too-long", rule="elapsed_ms < 24500"),
    )
    policy = a_policy(rules=rules, validators=Modes(anomaly=Mode.OFF))
    run = a_submission(score=1_000)._replace(clock_error_ms=1_000)
    judgement = judge(run, policy, NOBODY, digest="sha256:p")
    assert [
        ("adds-up", Severity.REJECT, None),
        ("not-too-long", Severity.FLAG, 1_000),
    ] == [(each.code, each.severity, each.detail.get("clock_error_ms")) for each in judgement.findings]
