"""Checks whether a run took much longer than its play: a slowed game gives time to think."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, MayFind, Submission


def slow_motion(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """Find runs that were open at least `slow_motion.ratio` times as long as their play.

    Runs with less than `least_s` of play are skipped, because a menu takes as long. Pauses and late
    submissions look the same, so this is evidence to be read beside other findings.
    """
    played_s = submission.claim.ticks / policy.ticks_per_second
    rule = policy.slow_motion
    if played_s < rule.least_s:
        return ()
    ratio = submission.elapsed_ms / 1000 / played_s
    if ratio < rule.ratio:
        return ()
    expected = Expected(at_most=rule.ratio, unit="s since the ticket for each s of play")
    return (Finding(Reason.SLOW_MOTION, round(ratio, 3), expected, detail={"played_s": round(played_s, 3)}),)


def may_be_slowed(policy: Policy) -> MayFind:
    """Return what tells, for this policy, whether `slow_motion` would find nothing."""
    tick_rate, rule = policy.ticks_per_second, policy.slow_motion
    least_s, ratio = rule.least_s, rule.ratio

    def may_find(submission: Submission, _history: History) -> bool:
        played_s = submission.claim.ticks / tick_rate
        return played_s >= least_s and submission.elapsed_ms / 1000 / played_s >= ratio

    return may_find
