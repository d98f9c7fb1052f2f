"""The way back from a moderator's decision: what was there before it, with the reason that it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.ledger.judgement.expiry import UNDO_DAYS, UNDO_MS
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.settle import Decision
from policies.errors import StateConflict
from policies.vocabulary import REMARKS, Reason, State

_UNDOABLE: Final = frozenset(
    {
        Reason.APPROVED,
        Reason.REJECTED_BY_MODERATOR,
        Reason.HELD_BY_MODERATOR,
        Reason.REVOKED_BY_MODERATOR,
        Reason.REINSTATED,
        Reason.APPEAL_GRANTED,
    }
)


def inverse_of(
    submission_id: str,
    history: Sequence[Mapping[str, Any]],
    *,
    actor: str,
    at_ms: int,
    detail: Mapping[str, Any],
) -> Decision | StateConflict:
    """Return the decision that undoes the newest event of a submission, or why there is none.

    `history` has all its events, oldest first. The submission returns to its state and reason before the
    event, so that everything that follows from them returns too.
    """
    *before, newest = history
    is_decision = newest["actor"].startswith(MODERATOR) and newest["reason"] in _UNDOABLE
    if not is_decision or "undoes" in newest["detail"]:
        return StateConflict("the last thing that happened to it is no decision that can be undone")
    if at_ms - newest["at_ms"] > UNDO_MS:
        return StateConflict(f"the decision is older than {UNDO_DAYS} days")
    reasons = [Reason(event["reason"]) for event in before]
    return Decision(
        submission_id,
        State(newest["from"]),
        actor,
        next(reason for reason in reversed(reasons) if reason not in REMARKS),
        at_ms,
        frozenset({State(newest["to"])}),
        detail={**detail, "undoes": newest["seq"]},
        newest_event=newest["seq"],
    )
