"""Checks whether more was played than time has passed."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def clock(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find runs that outpace the wall clock since their ticket by more than `velocity.slack_s`.

    Both times come from our clock, so nothing here trusts the client. The slack covers rounding at the start;
    the judge allows for differences between our own clocks (`validators.doubt`).
    """
    played_s = submission.claim.ticks / policy.ticks_per_second
    limit_s = submission.elapsed_ms / 1000 + policy.velocity.slack_s
    if played_s <= limit_s:
        return ()
    expected = Expected(at_most=round(limit_s, 3), unit="s of play since the ticket")
    return (Finding(Reason.VELOCITY_TIME, round(played_s, 3), expected),)


def may_outpace_the_clock(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `clock` would find nothing."""
    tick_rate, slack_s = policy.ticks_per_second, policy.velocity.slack_s

    def may_find(submission: Submission, _history: History) -> bool:
        return submission.claim.ticks / tick_rate > submission.elapsed_ms / 1000 + slack_s

    return may_find
