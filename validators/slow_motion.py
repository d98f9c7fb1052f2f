"""Whether a run took much longer than it was played: a game slowed down gives time to think."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, Submission


def slow_motion(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """A finding for a run that was open `slow_motion.ratio` times as long as it was played, or longer.

    Runs of less than `least_s` of play are left out: a menu takes as long. A pause looks the same from here, and so
    does a wait before the submission: it is evidence to be read beside others.
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
