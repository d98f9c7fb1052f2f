"""Detects players who probe the board's limits with claims that are refused."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def probing(_submission: Submission, policy: Policy, history: History) -> tuple[Finding, ...]:
    """Find players who were limited because too many of their claims were refused.

    Redis keeps the count for a month; without Redis nothing is found.
    """
    if not history.refusals:
        return ()
    rule = policy.limits.refused
    expected = Expected(at_most=rule.player - 1, unit="refused claims")
    return (Finding(Reason.LIMITS_PROBED, history.refusals, expected, detail={"window_s": rule.window_s}),)


def may_be_probing(_policy: Policy) -> MayFind:
    """Return what tells whether `probing` would find nothing."""
    return lambda _submission, history: history.refusals != 0
