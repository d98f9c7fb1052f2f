"""Whether the player has felt for the limits of the board: claims that were refused, one after the other."""

from __future__ import annotations

from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.submission import History, Submission


def probing(_submission: Submission, policy: Policy, history: History) -> tuple[Finding, ...]:
    """A finding if so many claims of the player were refused before that the player was limited for it.

    The count is Redis' and is forgotten after a month; without Redis nothing is known, and nothing is found.
    """
    if not history.refusals:
        return ()
    rule = policy.limits.refused
    expected = Expected(at_most=rule.player - 1, unit="refused claims")
    return (Finding(Reason.LIMITS_PROBED, history.refusals, expected, detail={"window_s": rule.window_s}),)
