"""Whether points or ticks came faster than they can."""

from __future__ import annotations

from policies.model import Order, Policy
from policies.vocabulary import Finding, Reason, Severity
from validators.submission import History, Submission


def velocity(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Findings for a run that outpaces the game's points per second, or the wall clock since its ticket.

    The wall clock is ours at both ends, so nothing here trusts the client. `slack_s` covers rounding at the start.
    """
    return tuple(filter(None, (_points(submission, policy), _time(submission, policy))))


def _points(submission: Submission, policy: Policy) -> Finding | None:
    if policy.order is Order.ASCENDING:
        return None
    played_s = max(submission.claim.ticks / policy.ticks_per_second, 1.0)
    pace = (submission.claim.score - max(policy.score.minimum, 0)) / played_s
    if pace <= policy.velocity.points_per_second:
        return None
    expected = f"at most {policy.velocity.points_per_second:g} points per second"
    return Finding(Reason.VELOCITY_POINTS, Severity.REJECT, round(pace, 3), expected)


def _time(submission: Submission, policy: Policy) -> Finding | None:
    played_s = submission.claim.ticks / policy.ticks_per_second
    elapsed_s = submission.elapsed_ms / 1000
    if played_s <= elapsed_s + policy.velocity.slack_s:
        return None
    expected = f"at most {elapsed_s + policy.velocity.slack_s:.3f} s of play since the ticket"
    return Finding(Reason.VELOCITY_TIME, Severity.REJECT, round(played_s, 3), expected)
