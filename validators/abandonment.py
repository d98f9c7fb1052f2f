"""Detects players who open runs to see their seeds, and play only the lucky ones."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def abandonment(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find players who submitted too few of the runs that they opened in the day before this one.

    The counts come from the ticket. Without them (Redis was away) nothing is found. Runs that are still open
    count as not submitted; they are few.
    """
    opened, submitted, rule = submission.runs_opened, submission.runs_submitted, policy.abandonment
    if opened is None or submitted is None or opened < rule.least_runs:
        return ()
    share = submitted / opened
    if share >= rule.least_share:
        return ()
    expected = Expected(at_least=rule.least_share, unit="of the runs opened in a day")
    detail = {"opened": opened, "submitted": submitted}
    return (Finding(Reason.RUNS_ABANDONED, round(share, 4), expected, opened, detail),)


def may_be_abandoning(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `abandonment` would find nothing."""
    least_runs = policy.abandonment.least_runs

    def may_find(submission: Submission, _history: History) -> bool:
        return submission.runs_opened is not None and submission.runs_opened >= least_runs

    return may_find
