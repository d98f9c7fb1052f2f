"""What a moderator reads in a finding: every number of it, by every validator, as the ledger keeps it.

A threshold that is right and evidence that is wrong has an honest player rejected by hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.choices import Writes
from policies.fields import SortOrder
from policies.judging import (
    TIME_VALIDATORS,
    Anomaly,
    Delay,
    Modes,
    Progress,
    SlowMotion,
    StatRange,
    Transform,
)
from policies.model import Policy
from policies.replaying import Replay
from policies.rules import Rule
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity, State
from tests.support.submissions import a_policy, a_submission
from tests.validators.test_anomaly import known
from validators.judge import VALIDATORS, judge
from validators.submission import History, Submission

CLIMBED = (100, 200, 300, 350, 400, 1_900, 2_000)
"""Steps of 100, a leap, and little after it."""

ALL = Modes(**dict.fromkeys(Modes.model_fields, Mode.SHADOW))
"""Every validator is asked, and none rejects."""


def suspicious(**changed: Any) -> tuple[Submission, History]:
    """A run in which every validator finds something, and what is known before it."""
    run = a_submission(score=9_995, ticks=2_400, elapsed_s=37.0, stats={"kills": 7})
    facts = {"runs_opened": 50, "runs_submitted": 4} | changed
    return run._replace(**facts), History(known(*CLIMBED), known(*range(100, 400, 20)), refusals=25)


def policy(**changed: Any) -> Policy:
    """One that finds all of it: the run is late, slow, and too fast, each by a limit that is made for it."""
    limits: dict[str, Any] = {
        "validators": ALL,
        "stats": {"kills": StatRange(minimum=1, maximum=9, step=4)},
        "replay": Replay(maximum_ticks=3_600, ticks_per_second=60, stats=("kills",)),
        "progress": Progress(times=2.0, points=5_000),
        "anomaly": Anomaly(threshold=3.0, minimum_history=5, minimum_population=10, spread_floor=50.0),
    }
    return a_policy(**(limits | changed))


def found(run: Submission, history: History, policy: Policy, name: str) -> list[Finding]:
    findings = judge(run, policy, history, digest="sha256:p").findings
    return [replace(each, validator="", policy="") for each in findings if each.validator == name]


def test_the_evidence_of_each_validator_is_all_there():
    """Value, range, unit, sample, and further numbers; by its name, under the policy that it was found by."""
    run, history = suspicious()
    due = {
        "bounds": [Finding(Reason.SCORE_BOUNDS, 9_995, Expected(0, 10_000, "points"), 0, {"step": 10})],
        "stats": [Finding(Reason.STATS_BOUNDS, 7, Expected(1, 9, "kills"), 0, {"step": 4}, code="kills")],
        "velocity": [Finding(Reason.VELOCITY_POINTS, 249.875, Expected(None, 100.0, "points per second"))],
        "clock": [Finding(Reason.VELOCITY_TIME, 40.0, Expected(None, 39.0, "s of play since the ticket"))],
        "abandonment": [
            Finding(
                Reason.RUNS_ABANDONED,
                0.08,
                Expected(0.1, None, "of the runs opened in a day"),
                50,
                {"opened": 50, "submitted": 4},
            )
        ],
        "probing": [
            Finding(Reason.LIMITS_PROBED, 25, Expected(None, 19, "refused claims"), detail={"window_s": 3600})
        ],
        "progress": [
            Finding(Reason.PROGRESS, 7_995, Expected(None, 5_000, "points beyond the player's best"), 7),
            Finding(
                Reason.PROGRESS,
                5.33,
                Expected(None, 2.0, "largest steps of the player's own"),
                7,
                {"gain": 7_995},
            ),
        ],
    }
    assert due == {name: found(run, history, policy(), name) for name in due}


def test_the_evidence_of_time_is_all_there():
    """How long it was open for each second of play, and how long after its end it came."""
    run = a_submission(ticks=2_400, elapsed_s=500.5)
    limits = policy(slow_motion=SlowMotion(ratio=3, least_s=40), delay=Delay(most_s=60))
    slow = Expected(None, 3.0, "s since the ticket for each s of play")
    late = Expected(None, 60.0, "s from its end to its submission")
    assert [Finding(Reason.SLOW_MOTION, 12.512, slow, detail={"played_s": 40.0})] == found(
        run, History(), limits, "slow_motion"
    )
    assert [Finding(Reason.LATE, 460.5, late)] == found(run, History(), limits, "delay")


def test_the_evidence_of_what_is_known_is_all_there():
    """Against the player, and against all: how far, of how many, from where, and up to which score."""
    run, history = suspicious()
    of_player, of_all = found(run, history, policy(), "anomaly")
    unit = Expected(None, 3.0, "standard deviations")
    assert (Reason.ANOMALY_PLAYER, unit, 7) == (of_player.reason, of_player.expected, of_player.sample_size)
    assert (Reason.ANOMALY_POPULATION, unit, 15) == (of_all.reason, of_all.expected, of_all.sample_size)
    for finding, centre in ((of_player, 350.0), (of_all, 240.0)):
        limit = finding.detail["limit"]
        assert centre == finding.detail["centre"]
        # What the limit is away from the centre is three of what the value is so many of.
        assert finding.value == pytest.approx(3 * (9_995 - centre) / (limit - centre), rel=0.001)
    [drifted] = found(run, history, policy(), "drift")
    assert (Reason.DRIFT, Expected(None, 6.0, "standard deviations, added up"), 7) == (
        drifted.reason,
        drifted.expected,
        drifted.sample_size,
    )
    ranked = policy(
        anomaly=Anomaly(
            transform=Transform.RANK, threshold=0.5, minimum_history=5, minimum_population=10, spread_floor=50
        )
    )
    by_rank = found(run._replace(claim=replace(run.claim, score=1_950)), history, ranked, "anomaly")
    assert (0.5, "standard deviations by rank", 7, {"better": 1}) == (
        by_rank[0].expected.at_most,
        by_rank[0].expected.unit,
        by_rank[0].sample_size,
        by_rank[0].detail,
    )


@pytest.mark.parametrize(
    ("order", "score", "ends"),
    [(SortOrder.DESCENDING, 390, (None, 380)), (SortOrder.ASCENDING, 90, (100, None))],
)
def test_the_evidence_of_a_newcomers_record_says_which_it_beats(
    order: SortOrder, score: int, ends: tuple[int | None, int | None]
):
    """The best of all before it, on the side on which the board has its best."""
    run = a_submission(score=score)
    history = History(population=known(*range(100, 400, 20)))
    [record] = found(run, history, policy(order=order), "anomaly")
    assert Finding(Reason.ANOMALY_RECORD, score, Expected(*ends, "points"), 15) == record


def test_each_validator_is_asked_under_its_own_name():
    """In their order, the studio's own after them; the mode of each is its own, and no other's."""
    run, history = suspicious()
    names = [
        "bounds",
        "stats",
        "velocity",
        "clock",
        "slow_motion",
        "delay",
        "abandonment",
        "anomaly",
        "drift",
        "progress",
        "probing",
    ]
    assert names == [each.name for each in VALIDATORS]
    rules = (Rule(name="few", rule="score < 5000"),)
    of_time = {"slow_motion": SlowMotion(ratio=1.0001, least_s=1), "delay": Delay(most_s=0)}
    ruled = policy(rules=rules, **of_time)
    slower = run._replace(received_at_ms=run.issued_at_ms + 60_000)
    for asked, missing in ((run, {"slow_motion", "delay"}), (slower, {"clock"})):
        findings = judge(asked, ruled, history, digest="sha256:p").findings
        told = list(dict.fromkeys(each.validator for each in findings))
        assert [name for name in [*names, "rules"] if name not in missing] == told
        assert {("sha256:p", Severity.NOTE)} == {(each.policy, each.severity) for each in findings}
        for name in told:
            others = policy(rules=rules, **of_time, validators=ALL.model_copy(update={name: Mode.OFF}))
            left = judge(asked, others, history, digest="sha256:p").findings
            assert [each for each in findings if each.validator != name] == list(left)


def test_without_a_length_of_a_tick_nothing_goes_by_time():
    """60 ticks are a second only where the policy says so: no honest run is late by a rate that nobody stated."""
    run, history = suspicious()
    changed = {"replay": None, "builds": {}, "stats": {}, "writes": Writes.OPEN}
    for elapsed_ms in (1_000, 10_000_000):
        asked = run._replace(received_at_ms=run.issued_at_ms + elapsed_ms)
        unstated = policy(**changed, velocity={"points_per_second": None}, delay=Delay(most_s=0))
        stated = policy(**changed, velocity={"points_per_second": 100.0}, delay=Delay(most_s=0))
        told, due = (
            {each.validator for each in judge(asked, each_policy, history, digest="").findings}
            for each_policy in (unstated, stated)
        )
        assert set() == told & TIME_VALIDATORS
        assert due & TIME_VALIDATORS
    assert {"clock", "slow_motion", "delay"} == TIME_VALIDATORS


def test_a_finding_is_kept_as_it_was_made():
    """The schema is stable: every field by its name, for the ledger, the case, and whoever reads the export."""
    finding = Finding(
        Reason.SCORE_BOUNDS,
        5,
        Expected(1, 4, "points"),
        3,
        {"step": 2},
        Severity.FLAG,
        "bounds",
        "p",
        "c",
        ("r2",),
    )
    assert {
        "validator": "bounds",
        "reason": "score-bounds",
        "severity": "flag",
        "value": 5,
        "expected": {"at_least": 1, "at_most": 4, "unit": "points"},
        "sample_size": 3,
        "detail": {"step": 2},
        "policy": "p",
        "code": "c",
        "others": ["r2"],
    } == finding.as_dict()


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (Expected(1, 4, "points"), "at least 1 and at most 4 points"),
        (Expected(None, 2.5, "s"), "at most 2.5 s"),
        (Expected(0, None, "of the runs"), "at least 0 of the runs"),
        (Expected(unit="round"), "anything else round"),
        (Expected(at_most=3), "at most 3"),
    ],
)
def test_a_range_is_read_as_a_sentence(expected: Expected, words: str):
    """An end that is 0 is an end."""
    assert words == str(expected)


@pytest.mark.parametrize("reason", [Reason.SCORE_BOUNDS, Reason.STATS_BOUNDS, Reason.RULE_BROKEN])
def test_only_what_a_claim_cannot_be_is_refused_to_the_clients_face(reason: Reason):
    """A rejection by time or history is never told at once: it would say where the limit is."""
    run, history = suspicious()
    one = {Reason.SCORE_BOUNDS: "bounds", Reason.STATS_BOUNDS: "stats", Reason.RULE_BROKEN: "rules"}[reason]
    rejecting = ALL.model_copy(update={one: Mode.REJECT})
    refused = judge(
        run, policy(validators=rejecting, rules=(Rule(name="few", rule="score < 5000"),)), history, digest=""
    )
    assert refused.refusal is not None
    assert (State.REJECTED, reason, reason) == (refused.state, refused.reason, refused.refusal.reason)
    for name in ("velocity", "clock", "abandonment", "anomaly", "drift", "progress", "probing"):
        quiet = judge(run, policy(validators=ALL.model_copy(update={name: Mode.REJECT})), history, digest="")
        assert (State.REJECTED, None) == (quiet.state, quiet.refusal)


def test_a_board_that_names_no_statistics_takes_any():
    """Nobody is refused for what a board does not speak of; where it names some, what it does not name is found."""
    run, _ = suspicious()
    open_board = {"replay": None, "builds": {}, "writes": Writes.OPEN}
    assert [] == found(run, History(), policy(**open_board, stats={}), "stats")
    named = found(run, History(), policy(**open_board, stats={"coins": StatRange(required=False)}), "stats")
    unit = "statistics of this name"
    assert [Finding(Reason.STATS_NAMES, 1, Expected(0, 0, unit), code="kills")] == named
    missing = found(run, History(), policy(**open_board, stats={"coins": StatRange()}), "stats")
    assert Finding(Reason.STATS_NAMES, 0, Expected(1, 1, unit), code="coins") == missing[0]
