"""Checks whether a score, and a run, is possible on the board at all."""

from __future__ import annotations

from collections.abc import Mapping

from policies.model import Policy
from policies.vocabulary import Claim, Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def bounds(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find scores that are out of range, or not a whole number of steps."""
    score, rule = submission.claim.score, policy.score
    if is_score_possible(score, policy):
        return ()
    expected = Expected(at_least=rule.minimum, at_most=rule.maximum, unit="points")
    return (Finding(Reason.SCORE_BOUNDS, score, expected, detail={"step": rule.step}),)


def is_score_possible(score: int, policy: Policy) -> bool:
    """Return whether the score lies in [minimum, maximum], a whole number of steps above `minimum`."""
    bounds = policy.score
    return bounds.minimum <= score <= bounds.maximum and (score - bounds.minimum) % bounds.step == 0


def is_playable(claim: Claim, policy: Policy) -> bool:
    """Return whether a replay could take the claim's ticks and stats. Other claims are not judged."""
    replay = policy.replay
    if replay is None:
        return claim.ticks >= 0
    return 1 <= claim.ticks <= replay.maximum_ticks and _has_exactly(claim.stats, replay.stats)


def _has_exactly(stats: Mapping[str, int], names: tuple[str, ...]) -> bool:
    return len(stats) == len(names) and all(name in stats for name in names)


def may_break_bounds(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `bounds` would find nothing."""
    least, most, step = policy.score.minimum, policy.score.maximum, policy.score.step

    def may_find(submission: Submission, _history: History) -> bool:
        score = submission.claim.score
        return not least <= score <= most or (score - least) % step != 0

    return may_find
