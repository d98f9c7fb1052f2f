"""The judge: findings and verdicts to outcomes."""

from __future__ import annotations

import pytest

from policies.choices import Writes
from policies.judging import Modes
from policies.replaying import BuildStatus
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity, State, Verdict, VerdictKind
from tests.support.submissions import a_policy, a_submission
from validators.judge import judge, judge_verdict
from validators.submission import History

FLAG = Finding(Reason.ANOMALY_PLAYER, 9.0, Expected(at_most=3), severity=Severity.FLAG)
NOTE = Finding(Reason.ANOMALY_PLAYER, 9.0, Expected(at_most=3), severity=Severity.NOTE)
REJECT = Finding(Reason.ANOMALY_PLAYER, 9.0, Expected(at_most=3), severity=Severity.REJECT)


def verdict(kind: VerdictKind, reason: Reason) -> Verdict:
    return Verdict(kind, reason, "sha256:0", "engine")


def test_a_clean_run_waits_for_its_replay():
    """Nothing is promoted without a verdict."""
    assert (State.PENDING, Reason.ACCEPTED) == _outcome(
        judge(a_submission(), a_policy(), History(), digest="sha256:0")
    )


def test_V03_a_flagged_run_still_waits_for_its_replay():
    """The flag is kept as evidence and decides after the replay."""
    judgement = judge(
        a_submission(score=2_000, ticks=3_000, elapsed_s=60), a_policy(), History(), digest="sha256:0"
    )
    assert State.PENDING is judgement.state
    judgement = judge(
        a_submission(score=4_000, ticks=3_000, elapsed_s=60), a_policy(), History(), digest="sha256:0"
    )
    assert State.PENDING is judgement.state
    assert [Reason.ANOMALY_POPULATION] == [finding.reason for finding in judgement.findings]


def test_an_impossible_run_is_rejected_at_once():
    """The first rejecting finding gives the reason."""
    judgement = judge(a_submission(score=10_000), a_policy(), History(), digest="sha256:0")
    assert (State.REJECTED, Reason.VELOCITY_POINTS) == _outcome(judgement)


def test_an_open_board_sends_everything_to_a_moderator():
    """Without a replay only a named moderator can promote."""
    policy = a_policy(writes=Writes.OPEN, replay=None, builds={})
    assert (State.HELD, Reason.REVIEW_REQUIRED) == _outcome(
        judge(a_submission(), policy, History(), digest="sha256:0")
    )


def test_an_open_board_says_what_was_found():
    """A run with a flag waits for it; one that can be no run is rejected, and nobody need look at it."""
    flagging = a_policy(writes=Writes.OPEN, replay=None, builds={}, validators=Modes(velocity=Mode.FLAG))
    rejecting = a_policy(writes=Writes.OPEN, replay=None, builds={}, validators=Modes(velocity=Mode.REJECT))
    fast = a_submission(score=4_000)
    assert (State.HELD, Reason.VELOCITY_POINTS) == _outcome(judge(fast, flagging, History(), digest=""))
    assert (State.REJECTED, Reason.VELOCITY_POINTS) == _outcome(judge(fast, rejecting, History(), digest=""))


@pytest.mark.parametrize(
    ("mode", "severities", "state"),
    [
        (Mode.OFF, [], State.PENDING),
        (Mode.SHADOW, [Severity.NOTE], State.PENDING),
        (Mode.FLAG, [Severity.FLAG], State.PENDING),
        (Mode.REJECT, [Severity.REJECT], State.REJECTED),
    ],
)
def test_a_board_says_what_becomes_of_what_a_validator_finds(mode, severities, state):
    """The same run under each mode: nothing is found, it is recorded, it waits, it is rejected."""
    policy = a_policy(validators=Modes(velocity=mode))
    judgement = judge(a_submission(score=4_000), policy, History(), digest="sha256:0")
    found = [each for each in judgement.findings if each.validator == "velocity"]
    assert severities == [each.severity for each in found]
    assert all(each.policy == "sha256:0" for each in found)
    assert state is judgement.state


@pytest.mark.parametrize(
    ("kind", "reason", "findings", "expected"),
    [
        (VerdictKind.VERIFIED, Reason.VERIFIED, (), (State.PROMOTED, Reason.VERIFIED)),
        (VerdictKind.VERIFIED, Reason.VERIFIED, (NOTE,), (State.PROMOTED, Reason.VERIFIED)),
        (VerdictKind.VERIFIED, Reason.VERIFIED, (FLAG,), (State.HELD, Reason.ANOMALY_PLAYER)),
        (VerdictKind.VERIFIED, Reason.VERIFIED, (FLAG, REJECT), (State.REJECTED, Reason.ANOMALY_PLAYER)),
        (VerdictKind.INCONCLUSIVE, Reason.TIMED_OUT, (REJECT,), (State.HELD, Reason.TIMED_OUT)),
        (VerdictKind.MISMATCH, Reason.SCORE_MISMATCH, (), (State.REJECTED, Reason.SCORE_MISMATCH)),
        (VerdictKind.MISMATCH, Reason.DIVERGED, (FLAG,), (State.REJECTED, Reason.DIVERGED)),
        (VerdictKind.INCONCLUSIVE, Reason.OUT_OF_FUEL, (), (State.HELD, Reason.OUT_OF_FUEL)),
        (VerdictKind.INCONCLUSIVE, Reason.TIMED_OUT, (FLAG,), (State.HELD, Reason.TIMED_OUT)),
    ],
)
def test_a_verdict_decides(kind, reason, findings, expected):
    """A mismatch convicts, a fault of ours never does, and a flag outlives a verified replay."""
    assert expected == _outcome(judge_verdict(verdict(kind, reason), findings))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (BuildStatus.PROVISIONAL, Reason.BUILD_PROVISIONAL),
        (BuildStatus.BLOCKED, Reason.BUILD_BLOCKED),
    ],
)
def test_a_verified_run_of_a_build_in_doubt_waits(build, reason):
    """For its build, unless something was found, which says more."""
    verified = verdict(VerdictKind.VERIFIED, Reason.VERIFIED)
    assert (State.HELD, reason) == _outcome(judge_verdict(verified, (NOTE,), build=build))
    assert (State.HELD, Reason.ANOMALY_PLAYER) == _outcome(judge_verdict(verified, (FLAG,), build=build))
    assert (State.REJECTED, Reason.ANOMALY_PLAYER) == _outcome(
        judge_verdict(verified, (REJECT,), build=build)
    )


def _outcome(judgement):
    return judgement.state, judgement.reason
