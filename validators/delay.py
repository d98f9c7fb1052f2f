"""Checks whether a run came late enough to have been worked on; a lost network looks the same."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def delay(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find runs that were sent more than `delay.most_s` after their earliest possible end.

    That end is the ticket's time plus the run's ticks, so pauses count as delay.
    """
    waited_s = submission.elapsed_ms / 1000 - submission.claim.ticks / policy.ticks_per_second
    if waited_s <= policy.delay.most_s:
        return ()
    expected = Expected(at_most=policy.delay.most_s, unit="s from its end to its submission")
    return (Finding(Reason.LATE, round(waited_s, 3), expected),)


def may_be_late(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `delay` would find nothing."""
    tick_rate, most_s = policy.ticks_per_second, policy.delay.most_s

    def may_find(submission: Submission, _history: History) -> bool:
        return submission.elapsed_ms / 1000 - submission.claim.ticks / tick_rate > most_s

    return may_find
