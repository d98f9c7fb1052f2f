"""Whether more was played than time has passed."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, Submission


def clock(submission: Submission, policy: Policy, _history: History) -> tuple[Finding, ...]:
    """A finding for a run that outpaces the wall clock since its ticket by more than `velocity.slack_s`.

    The wall clock is ours at both ends, so nothing here trusts the client. The slack covers rounding at the start; how
    far our own clocks may be apart is allowed for by the judge (`validators.doubt`).
    """
    played_s = submission.claim.ticks / policy.ticks_per_second
    most_s = submission.elapsed_ms / 1000 + policy.velocity.slack_s
    if played_s <= most_s:
        return ()
    expected = Expected(at_most=round(most_s, 3), unit="s of play since the ticket")
    return (Finding(Reason.VELOCITY_TIME, round(played_s, 3), expected),)
