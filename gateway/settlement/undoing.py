"""The way back from a moderator's decision: what was there before it, with the reason that it had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.ledger.judgement.expiry import UNDO_DAYS, UNDO_MS
from gateway.settlement.case_history import CaseEvent, CaseHistory, reason_without_bans, without_bans
from gateway.settlement.decision_records import Decision
from gateway.settlement.held_cases import MODERATOR
from policies.errors import StateConflict
from policies.vocabulary import Reason, State

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
    history: CaseHistory,
    *,
    actor: str,
    at_ms: int,
    detail: Mapping[str, Any],
) -> Decision | StateConflict:
    """Return the decision that undoes the newest event of a submission, or why there is none.

    `history` has all its events, oldest first. The submission returns to its state and reason before the
    event, so that everything that follows from them returns too; bans are left to themselves.
    """
    *before, newest = without_bans(history)
    is_decision = newest["actor"].startswith(MODERATOR) and newest["reason"] in _UNDOABLE
    if not is_decision or "undoes" in newest["detail"]:
        return StateConflict("the last thing that happened to it is no decision that can be undone")
    if at_ms - newest["at_ms"] > UNDO_MS:
        return StateConflict(f"the decision is older than {UNDO_DAYS} days")
    return inverse_from(submission_id, before, newest, actor=actor, at_ms=at_ms, detail=detail)


def inverse_from(
    submission_id: str,
    before: CaseHistory,
    event: CaseEvent,
    *,
    actor: str,
    at_ms: int,
    detail: Mapping[str, Any],
) -> Decision:
    """Return the decision that gives back what was there `before` an event, which must be the newest."""
    return Decision(
        submission_id,
        State(event["from"]),
        actor,
        reason_without_bans(before),
        at_ms,
        frozenset({State(event["to"])}),
        detail={**detail, "undoes": event["seq"]},
        newest_event=event["seq"],
    )
