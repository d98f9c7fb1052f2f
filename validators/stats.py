"""Checks whether a run of this game can have such statistics."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def stats(submission: Submission, policy: Policy, _history: History) -> Iterator[Finding]:
    """Find statistics that are out of range, not a whole number of steps, missing, or unknown to the board.

    A board that declares no statistics is not checked. The finding's code is the statistic.
    """
    claimed = submission.claim.stats
    for name, rule in policy.stats.items():
        value = claimed.get(name)
        if value is None:
            if rule.required:
                yield _unexpected(name, 0, expected=1)
        elif not rule.minimum <= value <= rule.maximum or (value - rule.minimum) % rule.step:
            expected = Expected(at_least=rule.minimum, at_most=rule.maximum, unit=name)
            yield Finding(Reason.STATS_BOUNDS, value, expected, detail={"step": rule.step}, code=name)
    if policy.stats and policy.replay is None:
        for name in sorted(claimed.keys() - policy.claim_stats.keys()):
            yield _unexpected(name, 1, expected=0)


def _unexpected(name: str, given: int, *, expected: int) -> Finding:
    exactly = Expected(at_least=expected, at_most=expected, unit="statistics of this name")
    return Finding(Reason.STATS_NAMES, given, exactly, code=name)


def may_break_stats(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `stats` would find nothing."""
    ranges = [(name, rule.minimum, rule.maximum, rule.step) for name, rule in policy.stats.items()]

    def may_find(submission: Submission, _history: History) -> bool:
        claimed = submission.claim.stats
        if len(claimed) != len(ranges):
            return bool(ranges)
        for name, least, most, step in ranges:
            value = claimed.get(name)
            if value is None or not least <= value <= most or (value - least) % step:
                return True
        return False

    return may_find
