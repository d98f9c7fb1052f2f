"""Applies the checks of claims to each run, in the order of time, with the history so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from bench.judgement.population import SubmittedRun
from bench.judgement.signals import Signals, sensitive, signals_of
from policies.judging import PLAYER_RECENT, Transform
from policies.model import Policy
from policies.vocabulary import Severity, Verdict, VerdictKind
from validators.abandonment import abandonment
from validators.anomaly import anomaly
from validators.baseline import PromotedScore
from validators.bests import best_among, is_better, merits
from validators.board_history import BoardHistory
from validators.delay import delay
from validators.drift import chart_of
from validators.judge import Judgement, judge
from validators.progress import progress
from validators.slow_motion import slow_motion
from validators.submission import History, Submission
from validators.velocity import velocity

DIGEST: Final = "sha256:bench"

TRANSFORMS: Final[Mapping[Transform, str]] = {
    Transform.NONE: "anomaly (points)",
    Transform.LOG: "anomaly (logarithms)",
    Transform.RANK: "anomaly (ranks)",
}

Check = Callable[[Submission, History], Signals]


class JudgedClaim(NamedTuple):
    """The signals of a run, and the policy's judgement before any replay."""

    signals: Signals
    judgement: Judgement


def judge_claims(
    runs: Sequence[SubmittedRun], policy: Policy, verdicts: Sequence[Verdict] | None
) -> Iterator[JudgedClaim]:
    """Yield each run's judgement, and learn from runs that re-simulation verifies.

    Without verdicts it learns from all runs that the policy does not hold, as if a moderator had approved
    them.
    """
    checks, players, crowd = list(_checks(policy)), BoardHistory(), BoardHistory()
    for number, run in enumerate(runs):
        submission = run.submission
        crowd_history = crowd.history(submission)
        player = players.history(submission).player
        history = History(player, crowd_history.population, crowd_history.build)
        judgement = judge(submission, policy, history, digest=DIGEST)
        yield JudgedClaim(
            dict(chain.from_iterable(check(submission, history).items() for check in checks)), judgement
        )
        if verdicts[number].kind is VerdictKind.VERIFIED if verdicts else not is_suspected(judgement):
            scored = PromotedScore(submission.received_at_ms, number, submission.claim.score)
            players.count(submission, scored, 1)
            if run.account.teaches:
                crowd.count(submission, scored, 1)


def is_suspected(judgement: Judgement) -> bool:
    """Return whether a finding holds the run or rejects it."""
    return any(finding.severity is not Severity.NOTE for finding in judgement.findings)


def _checks(policy: Policy) -> Iterator[Check]:
    """Yield the layers that check claims: the validators with open limits, and the chart of drift."""
    open_policy = sensitive(policy)
    for name, check in (
        ("velocity", velocity),
        ("slow_motion", slow_motion),
        ("delay", delay),
        ("abandonment", abandonment),
        ("progress", progress),
    ):
        yield partial(_signals, name, check, open_policy)
    for transform, name in TRANSFORMS.items():
        yield partial(_signals, name, anomaly, sensitive(policy, anomaly={"transform": transform}))
    yield partial(_drift_signals, policy)


def _signals(
    layer: str, check: Callable[..., object], policy: Policy, submission: Submission, history: History
) -> Signals:
    return signals_of(layer, check(submission, policy, history))  # type: ignore[arg-type]


def _drift_signals(policy: Policy, submission: Submission, history: History) -> Signals:
    """Return the sum that `validators.drift` compares with its decision."""
    scores, score = history.player.scores, submission.claim.score
    early = min(policy.anomaly.minimum_history, PLAYER_RECENT // 2)
    if len(scores) < early or not is_better(score, best_among(scores, policy), policy):
        return {}
    return {"drift: sum": chart_of(merits((*scores, score), policy), early, policy).total}
