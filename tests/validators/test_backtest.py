"""A policy held against history: what it would have decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.judging import Modes
from policies.replaying import Build, Replay
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity, State, Verdict, VerdictKind
from tests.support.submissions import a_policy, a_submission
from validators import backtest_summary
from validators.backtest import Backtest, BacktestReport, CaseOutcome, HistoricalEvent, Proportion
from validators.backtest_summary import BacktestSummary
from validators.baseline import PromotedScore

FAST = Finding(
    Reason.VELOCITY_POINTS, 200, Expected(at_most=100), severity=Severity.REJECT, validator="velocity"
)
REUSED = Finding(
    Reason.RECORDING_REUSED, 1, Expected(at_most=0), severity=Severity.FLAG, validator="recording_reuse"
)
VERIFIED = Verdict(VerdictKind.VERIFIED, Reason.VERIFIED, "sha256:0", "engine")
MISMATCH = Verdict(VerdictKind.MISMATCH, Reason.SCORE_MISMATCH, "sha256:0", "engine")


class Log:
    """Events of submissions, fed to a backtest."""

    def __init__(self, since_ms=0, **policy):
        self.test = Backtest(a_policy(**policy), digest="sha256:1", since_ms=since_ms)
        self.report = self.test.report
        self.count = 0

    def received(
        self, to_state=State.PENDING, reason=Reason.ACCEPTED, findings=(), *, is_trusted=False, **facts
    ):
        self.count += 1
        run = a_submission(**facts)._replace(submission_id=f"r{self.count}")
        self._take(run, State.RECEIVED, to_state, "edge", reason, findings=findings, is_trusted=is_trusted)
        return run

    def replayed(self, run, to_state, verdict=VERIFIED, findings_after=()):
        self._take(
            run, State.PENDING, to_state, "replay", verdict.reason, verdict=verdict, after=findings_after
        )

    def settled(self, run, to_state, reason):
        self._take(run, State.PENDING, to_state, "budget", reason)

    def decided(self, run, from_state, to_state, actor="moderator:ada"):
        self._take(run, from_state, to_state, actor, Reason.APPROVED)

    def promoted(self, **facts):
        run = self.received(**facts)
        self.replayed(run, State.PROMOTED)
        return run

    def _take(
        self,
        run,
        from_state,
        to_state,
        actor,
        reason,
        *,
        findings=(),
        after=(),
        verdict=None,
        is_trusted=False,
    ):
        self.test.take(
            HistoricalEvent(
                run.received_at_ms, from_state, to_state, actor, reason.value, run, tuple(findings),
                tuple(after), verdict, PromotedScore(run.received_at_ms, int(run.submission_id[1:]), run.claim.score), is_trusted,
            )
        )  # fmt: skip

    def outcomes(self):
        return [(case.then.outcome, case.now.outcome, case.now.reason) for case in self.report.cases]


def test_the_same_policy_changes_no_decision():
    """The control: what was decided is decided again."""
    log = Log()
    log.promoted()
    log.received(State.REJECTED, Reason.VELOCITY_POINTS, [FAST], score=4_000)
    held = log.received(score=2_800, ticks=3_000, elapsed_s=60)
    log.replayed(held, State.HELD)
    cheat = log.received()
    log.replayed(cheat, State.REJECTED, MISMATCH)
    assert [] == log.report.changed
    assert 4 == len(log.report.cases)


def test_a_stricter_policy_holds_what_was_promoted():
    """The findings of now decide, after the verdict of then."""
    log = Log(velocity={"points_per_second": 40.0}, validators=Modes(velocity=Mode.FLAG))
    log.promoted()
    assert [(CaseOutcome.PROMOTED, CaseOutcome.HELD, "velocity-points")] == log.outcomes()


def test_a_milder_policy_lets_a_replay_decide_where_there_was_none():
    """What was rejected at once had no replay, so that more than `pending` cannot be told."""
    log = Log(velocity={"points_per_second": 1_000.0})
    log.received(State.REJECTED, Reason.VELOCITY_POINTS, [FAST], score=4_000)
    assert [(CaseOutcome.REJECTED, CaseOutcome.PENDING, "accepted")] == log.outcomes()


def test_what_the_bounds_of_now_refuse():
    """Narrower bounds refuse what was promoted."""
    log = Log(score={"minimum": 0, "maximum": 500, "step": 10})
    log.promoted()
    assert [(CaseOutcome.PROMOTED, CaseOutcome.REFUSED, "bounds-violation")] == log.outcomes()


def test_what_the_replay_of_now_does_not_take_is_refused():
    """Other statistics or fewer ticks than a run has: no such run is judged."""
    for replay in (Replay(maximum_ticks=3_600), Replay(maximum_ticks=1_000, stats=("kills",))):
        log = Log(replay=replay)
        log.promoted()
        assert [(CaseOutcome.PROMOTED, CaseOutcome.REFUSED, "bounds-violation")] == log.outcomes()


@pytest.mark.parametrize("status", ["provisional", "blocked"])
def test_a_build_is_what_the_policy_of_now_says(status):
    """A verified run of it is held; one that lies is rejected if it is replayed, and held if it is not."""
    log = Log(builds={"b1": Build(simulator="game.wasm", status=status)})
    log.promoted()
    cheat = log.received()
    log.replayed(cheat, State.REJECTED, MISMATCH)
    lie = (
        (CaseOutcome.HELD, "build-blocked")
        if status == "blocked"
        else (CaseOutcome.REJECTED, "score-mismatch")
    )
    assert [
        (CaseOutcome.PROMOTED, CaseOutcome.HELD, f"build-{status}"),
        (CaseOutcome.REJECTED, *lie),
    ] == log.outcomes()


def test_what_a_replay_found_is_weighed_by_the_modes_of_now():
    """A reused recording was held; a board that only notes it promotes."""
    log = Log(validators=Modes(recording_reuse=Mode.SHADOW))
    run = log.received()
    log.replayed(run, State.HELD, findings_after=[REUSED])
    assert [(CaseOutcome.HELD, CaseOutcome.PROMOTED, "verified")] == log.outcomes()
    assert {("recording_reuse", Severity.FLAG): 1} == log.report.found(is_new=False)
    assert {("recording_reuse", Severity.NOTE): 1} == log.report.found(is_new=True)


def test_each_is_judged_by_the_history_of_its_time():
    """The third of a player who was at 1,000 is far out, though later runs are there too; a revoked one counts no more."""
    log = Log()
    for _ in range(6):
        log.promoted(score=1_000)
    log.promoted(score=1_900)
    assert "anomaly-player" == log.report.cases[-1].now.reason
    revoked = log.promoted(score=1_000)
    log.decided(revoked, State.PROMOTED, State.REVOKED)
    for _ in range(12):
        log.promoted(score=1_900)
    assert CaseOutcome.PROMOTED is log.report.cases[-1].now.outcome


@pytest.mark.parametrize(
    ("to_state", "reason", "outcome"),
    [
        (State.PROMOTED, Reason.SAMPLED, CaseOutcome.PROMOTED),
        (State.SUPERSEDED, Reason.NOT_VERIFIED, CaseOutcome.SUPERSEDED),
        (State.HELD, Reason.RECORDING_LOST, CaseOutcome.HELD),
    ],
)
def test_what_was_settled_without_a_replay_is_settled_so_again(to_state, reason, outcome):
    """A draw that spared the replay and a fault of ours are no decisions of the policy: they change nothing."""
    log = Log()
    log.settled(log.received(), to_state, reason)
    assert [(outcome, outcome, reason.value)] == log.outcomes()
    strict = Log(velocity={"points_per_second": 40.0})
    strict.settled(strict.received(), to_state, reason)
    assert [(outcome, CaseOutcome.REJECTED, "velocity-points")] == strict.outcomes()


def test_what_came_before_is_learnt_and_not_counted():
    """`--since` keeps older submissions out of the report, not out of the history."""
    log = Log(since_ms=1_020_000)
    for _ in range(6):
        log.promoted(score=1_000, elapsed_s=19)
    log.promoted(score=1_900)
    assert [(CaseOutcome.PROMOTED, CaseOutcome.HELD, "anomaly-player")] == log.outcomes()


def test_a_servers_write_is_learnt_and_not_judged():
    """The policy does not judge what registered servers write."""
    log = Log()
    run = log.received(is_trusted=True)
    assert [] == log.report.cases
    log.decided(run, State.PENDING, State.PROMOTED, actor="server:1")
    assert [] == log.report.cases


def test_precision_and_recall_are_of_what_moderators_decided():
    """Two cheats, one of them unsuspected; one honest run suspected; the rest has no label."""
    log = Log(validators=Modes(anomaly=Mode.OFF), velocity={"points_per_second": 60.0})
    caught = log.received(State.REJECTED, Reason.VELOCITY_POINTS, [FAST], score=1_500)
    slipped = log.promoted(score=500)
    honest = log.received(score=1_300)
    log.replayed(honest, State.HELD)
    log.promoted(score=500)
    log.decided(caught, State.HELD, State.REJECTED)
    log.decided(slipped, State.PROMOTED, State.REVOKED)
    log.decided(honest, State.HELD, State.PROMOTED)
    assert (Proportion(1, 2), Proportion(1, 2)) == (
        log.report.precision(is_new=True),
        log.report.recall(is_new=True),
    )


def test_held_submissions_are_told_per_day():
    """Over less than a day they are of that day."""
    log = Log()
    for _ in range(3):
        held = log.received(score=2_800, ticks=3_000, elapsed_s=60)
        log.replayed(held, State.HELD)
    assert 3 == log.report.held(is_new=True)


@given(st.integers(1, 500), st.data())
def test_an_interval_holds_its_share(of, data):
    """Wilson's interval is inside 0 to 1, around the share, and the whole of it where nothing is known."""
    hits = data.draw(st.integers(0, of))
    low, high = Proportion(hits, of).interval
    assert 0 <= low <= hits / of <= high <= 1
    assert (0.0, 1.0) == Proportion(0, 0).interval


def test_the_interval_is_wilsons():
    """8 of 10, from the formula's own tables: 0.490 to 0.943."""
    low, high = Proportion(8, 10).interval
    assert (0.490, 0.943) == (round(low, 3), round(high, 3))


def test_what_the_player_was_refused_before_is_known_by_the_finding_of_it():
    """Redis alone counted the refusals: the finding says how many there were, and is weighed as the new policy says."""
    probed = Finding(
        Reason.LIMITS_PROBED, 25, Expected(at_most=19), severity=Severity.FLAG, validator="probing"
    )
    found = {}
    for mode in (Mode.FLAG, Mode.SHADOW, Mode.OFF):
        log = Log(validators=Modes(probing=mode))
        log.replayed(log.received(findings=(probed,)), State.HELD)
        log.replayed(log.received(), State.PROMOTED)
        [case, other] = log.report.cases
        found[mode] = (case.now.outcome, [each.value for each in case.now.findings])
        assert CaseOutcome.PROMOTED is other.now.outcome
    assert {
        Mode.FLAG: (CaseOutcome.HELD, [25]),
        Mode.SHADOW: (CaseOutcome.PROMOTED, [25]),
        Mode.OFF: (CaseOutcome.PROMOTED, []),
    } == found


def test_what_was_rejected_at_once_and_would_be_replayed_now_is_counted_by_itself():
    """Nothing is kept of its recording; what a replay rejected, or is rejected still, is not among it."""
    log = Log()
    loose = log.received(State.REJECTED, Reason.VELOCITY_POINTS, findings=(FAST,))
    rejected = log.received()
    log.replayed(rejected, State.REJECTED, MISMATCH)
    assert [loose.submission_id] == [case.submission_id for case in log.report.unplayed]


DAY_S = 86_400
STRICT = {
    "velocity": {"points_per_second": 40.0},
    "validators": Modes(velocity=Mode.FLAG, anomaly=Mode.OFF, drift=Mode.OFF),
}
"""A policy under which 20 seconds of play with more than 800 points wait for a moderator."""


def a_mixed_log() -> Log:
    """Four days of runs under the strict policy: two that it holds, one that it lets through, one that was held then."""
    log = Log(**STRICT)
    log.promoted(score=1_000, elapsed_s=25)
    cheat = log.promoted(score=1_200, elapsed_s=DAY_S)
    slipped = log.promoted(score=500, elapsed_s=2 * DAY_S)
    honest = log.received(score=500, elapsed_s=4 * DAY_S + 25)
    log.replayed(honest, State.HELD)
    log.decided(cheat, State.PROMOTED, State.REVOKED)
    log.decided(slipped, State.PROMOTED, State.REVOKED)
    log.decided(honest, State.HELD, State.PROMOTED)
    return log


def test_a_report_says_what_would_have_been_otherwise():
    """Which cases moved and where to, how many a day were held and would be, and how often each policy was right."""
    report = a_mixed_log().report
    promoted, held = CaseOutcome.PROMOTED, CaseOutcome.HELD
    assert {(promoted, held): 2, (promoted, promoted): 1, (held, promoted): 1} == report.moves
    assert ["r1", "r2", "r4"] == [case.submission_id for case in report.changed]
    summary = BacktestSummary()
    summary.take(report)
    assert (4.0, 1, 2, 3) == (summary.days, summary.then.held, summary.new.held, summary.changes)
    assert [Proportion(0, 1), Proportion(1, 1)] == [report.precision(is_new=each) for each in (False, True)]
    assert [Proportion(0, 2), Proportion(1, 2)] == [report.recall(is_new=each) for each in (False, True)]
    assert {("velocity", Severity.FLAG): 2} == report.found(is_new=True)
    assert {} == report.found(is_new=False)


def test_the_last_decision_of_a_moderator_is_the_label():
    """One who thinks better of it was right the second time; what no person decided, or is held again, has no label."""
    log = Log()
    freed, caught, left = log.promoted(), log.promoted(), log.promoted()
    log.decided(freed, State.PROMOTED, State.REVOKED)
    log.decided(freed, State.REVOKED, State.PROMOTED)
    log.decided(caught, State.HELD, State.PROMOTED)
    log.decided(caught, State.PROMOTED, State.REJECTED)
    log.decided(left, State.PROMOTED, State.REVOKED, actor="operator")
    assert [False, True, None] == [case.is_cheat for case in log.report.cases]
    log.decided(caught, State.REJECTED, State.REJECTED)
    assert [False, True, None] == [case.is_cheat for case in log.report.cases]
    log.decided(left, State.REVOKED, State.REVOKED)
    assert [False, True, None] == [case.is_cheat for case in log.report.cases]
    log.decided(freed, State.PROMOTED, State.HELD)
    assert [None, True, None] == [case.is_cheat for case in log.report.cases]


@pytest.mark.parametrize("outcome", ["refused", "rejected", "held"])
def test_whatever_keeps_a_run_off_the_board_is_a_suspicion(outcome: str):
    """A run that waits, counts, or was not verified is none."""
    assert CaseOutcome(outcome).is_suspicion
    assert {"refused", "rejected", "held"} == {each.value for each in CaseOutcome if each.is_suspicion}


def test_submissions_of_the_first_moment_are_in_the_report():
    """`--since` begins with its own millisecond and not before it."""
    for since_ms, count in ((1_025_000, 1), (1_025_001, 0)):
        log = Log(since_ms=since_ms)
        log.promoted()
        assert count == len(log.report.cases)


def test_what_is_found_now_bears_the_policy_of_now():
    """Before the replay and after it, and what a replay alone had found is added to what was found before it."""
    log = Log(**STRICT)
    run = log.received(findings=(FAST,))
    unknown = replace(REUSED, validator="of-a-plugin")
    log.replayed(run, State.HELD, findings_after=[REUSED, unknown])
    [case] = log.report.cases
    assert ["velocity", "recording_reuse", "of-a-plugin"] == [each.validator for each in case.then.findings]
    assert [("velocity", "sha256:1"), ("recording_reuse", "sha256:1")] == [
        (each.validator, each.policy) for each in case.now.findings
    ]


def test_what_was_found_stands_where_a_replay_was_spared():
    """The new policy's notes on a run that was drawn not to be played are told with its case."""
    log = Log(**(STRICT | {"validators": Modes(velocity=Mode.SHADOW)}))
    log.settled(log.received(), State.PROMOTED, Reason.SAMPLED)
    assert {("velocity", Severity.NOTE): 1} == log.report.found(is_new=True)


def test_a_refusal_of_now_says_what_it_found():
    """A score outside of the bounds is refused with the finding; a claim that no replay could take has none."""
    log = Log(score={"minimum": 0, "maximum": 500, "step": 10})
    log.promoted()
    [case] = log.report.cases
    assert [Reason.SCORE_BOUNDS] == [each.reason for each in case.now.findings if each.validator == "bounds"]


def test_only_the_finding_of_refusals_tells_how_many_there_were():
    """Another finding's value is no count; of several the highest counts."""
    probed = [
        Finding(
            Reason.LIMITS_PROBED, value, Expected(at_most=19), severity=Severity.NOTE, validator="probing"
        )
        for value in (5, 25)
    ]
    for findings, values in (((FAST,), []), (probed, [25]), (probed[:1], [5])):
        log = Log(validators=Modes(probing=Mode.FLAG))
        log.replayed(log.received(findings=findings), State.PROMOTED)
        [case] = log.report.cases
        assert values == [each.value for each in case.now.findings]


def test_a_case_names_its_run_and_its_board():
    """Where a backtest of many boards lists what changes, each is found again; a build that is gone holds nothing back."""
    log = Log(builds={"b2": Build(simulator="game.wasm")})
    log.promoted(score=700)
    [case] = log.report.cases
    assert ("r1", "p1", 700, "test") == (case.submission_id, case.player, case.score, case.board)
    assert CaseOutcome.PROMOTED is case.now.outcome


def test_a_summary_is_the_sum_of_its_boards(monkeypatch: pytest.MonkeyPatch):
    """Every count of each board, from the first case to the last; of what changes only the first are kept."""
    monkeypatch.setattr(backtest_summary, "CHANGES_KEPT", 4)
    loose = Log(velocity={"points_per_second": 1_000.0}, validators=Modes(anomaly=Mode.OFF))
    loose.received(State.REJECTED, Reason.VELOCITY_POINTS, [FAST], score=4_000, elapsed_s=30)
    summary, mixed = BacktestSummary(), a_mixed_log()
    assert (1.0, None, 0) == (summary.days, summary.first_at_ms, summary.last_at_ms)
    for report in (mixed.report, loose.report, mixed.report):
        summary.take(report)
    assert (3, 9, 1, 7) == (summary.boards, summary.submissions, summary.unplayed, summary.changes)
    assert ["r1", "r2", "r4", "r1"] == [case.submission_id for case in summary.changed]
    promoted, held = CaseOutcome.PROMOTED, CaseOutcome.HELD
    assert {
        (promoted, held): 4,
        (promoted, promoted): 2,
        (held, promoted): 2,
        (CaseOutcome.REJECTED, CaseOutcome.PENDING): 1,
    } == summary.moves
    then, new = summary.then, summary.new
    assert ({("velocity", Severity.REJECT): 1}, {("velocity", Severity.FLAG): 4}) == (then.found, new.found)
    assert (2, 4) == (then.held, new.held)
    assert [Proportion(0, 2), Proportion(2, 2)] == [then.precision, new.precision]
    assert [Proportion(0, 4), Proportion(2, 4)] == [then.recall, new.recall]
    first_at_ms = 1_000_000 + 25_000
    assert (first_at_ms, first_at_ms + 4 * DAY_S * 1_000, 4.0) == (
        summary.first_at_ms,
        summary.last_at_ms,
        summary.days,
    )


@pytest.mark.parametrize(("days", "shown"), [(0.5, 1.0), (1.0, 1.0), (2.25, 2.25)])
def test_a_summary_covers_at_least_a_day(days: float, shown: float):
    """So that counts of a day are never more than were counted."""
    summary = BacktestSummary(first_at_ms=5, last_at_ms=5 + int(days * DAY_S * 1_000))
    assert shown == summary.days
    assert 2.0 == BacktestSummary(last_at_ms=2 * DAY_S * 1_000).days


def test_a_summary_lasts_from_the_first_case_of_any_board_to_the_last_of_any():
    """In whichever order boards are read: the last one read need not be the one that was played last."""
    summary = BacktestSummary()
    for first_at_ms, last_at_ms in ((5, 9), (2, 3)):
        summary.take(BacktestReport(first_at_ms=first_at_ms, last_at_ms=last_at_ms))
    assert (2, 9) == (summary.first_at_ms, summary.last_at_ms)


def test_ten_thousand_changes_are_kept():
    """More than anybody reads, and few enough to hold in memory."""
    assert 10_000 == backtest_summary.CHANGES_KEPT
