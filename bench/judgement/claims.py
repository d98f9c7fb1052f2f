"""What the checks of claims make of each run, in the order of time, with what was learnt until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from bench.judgement.population import Played
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


class Judged(NamedTuple):
    """The signals of a run, and what the policy itself says before any replay."""

    signals: Signals
    judgement: Judgement


def judged(runs: Sequence[Played], policy: Policy, verdicts: Sequence[Verdict] | None) -> Iterator[Judged]:
    """Each run judged. What re-simulation bears out is learnt.

    Without verdicts all is learnt in which the policy finds nothing to hold: as if a moderator had approved of it.
    """
    checks, players, crowd = list(_checks(policy)), BoardHistory(), BoardHistory()
    for number, run in enumerate(runs):
        asked = run.submission
        known = crowd.history(asked)
        history = History(players.history(asked).player, known.population, known.build)
        judgement = judge(asked, policy, history, digest=DIGEST)
        yield Judged(dict(chain.from_iterable(check(asked, history).items() for check in checks)), judgement)
        if verdicts[number].kind is VerdictKind.VERIFIED if verdicts else not is_suspected(judgement):
            scored = PromotedScore(asked.received_at_ms, number, asked.claim.score)
            players.count(asked, scored, 1)
            if run.account.teaches:
                crowd.count(asked, scored, 1)


def is_suspected(judgement: Judgement) -> bool:
    """True if something was found that holds the run, or rejects it."""
    return any(each.severity is not Severity.NOTE for each in judgement.findings)


def _checks(policy: Policy) -> Iterator[Check]:
    """The layers that look at claims: the validators with open limits, and the chart that drift decides by."""
    open_policy = sensitive(policy)
    for name, check in (
        ("velocity", velocity),
        ("slow_motion", slow_motion),
        ("delay", delay),
        ("abandonment", abandonment),
        ("progress", progress),
    ):
        yield partial(_asked, name, check, open_policy)
    for transform, name in TRANSFORMS.items():
        yield partial(_asked, name, anomaly, sensitive(policy, anomaly={"transform": transform}))
    yield partial(_charted, policy)


def _asked(
    layer: str, check: Callable[..., object], policy: Policy, submission: Submission, history: History
) -> Signals:
    return signals_of(layer, check(submission, policy, history))  # type: ignore[arg-type]


def _charted(policy: Policy, submission: Submission, history: History) -> Signals:
    """The sum that `validators.drift` compares with its decision, which is also a part of how it adds up."""
    scores, score = history.player.scores, submission.claim.score
    early = min(policy.anomaly.minimum_history, PLAYER_RECENT // 2)
    if len(scores) < early or not is_better(score, best_among(scores, policy), policy):
        return {}
    return {"drift: sum": chart_of(merits((*scores, score), policy), early, policy).total}
