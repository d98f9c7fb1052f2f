"""Checks whether points came faster than the game can give them."""

from __future__ import annotations

from policies.fields import SortOrder
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def velocity(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find runs with more points per second of play than `velocity.points_per_second`.

    The pace is that of the whole run, counted over at least one second and from the lowest score or 0. A time
    has no pace, so on an ascending board nothing is found.
    """
    limit = policy.velocity.points_per_second
    if limit is None or policy.order is SortOrder.ASCENDING:
        return ()
    played_s = max(submission.claim.ticks / policy.ticks_per_second, 1.0)
    pace = (submission.claim.score - max(policy.score.minimum, 0)) / played_s
    if pace <= limit:
        return ()
    expected = Expected(at_most=limit, unit="points per second")
    return (Finding(Reason.VELOCITY_POINTS, round(pace, 3), expected),)


def may_be_fast(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `velocity` would find nothing."""
    limit, tick_rate, least = policy.velocity.points_per_second, policy.ticks_per_second, policy.score.minimum
    if limit is None or policy.order is SortOrder.ASCENDING:
        return lambda _submission, _history: False
    lowest = max(least, 0)

    def may_find(submission: Submission, _history: History) -> bool:
        claim = submission.claim
        return (claim.score - lowest) / max(claim.ticks / tick_rate, 1.0) > limit

    return may_find
