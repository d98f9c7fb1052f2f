"""Whether a run came long after it can have ended: time to work on a recording, or to be without a network."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, Submission


def delay(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """A finding for a run that was sent more than `delay.most_s` after the earliest moment at which it can have ended.

    That is its ticket's time and its ticks, so pauses count too.
    """
    waited_s = submission.elapsed_ms / 1000 - submission.claim.ticks / policy.ticks_per_second
    if waited_s <= policy.delay.most_s:
        return ()
    expected = Expected(at_most=policy.delay.most_s, unit="s from its end to its submission")
    return (Finding(Reason.LATE, round(waited_s, 3), expected),)
