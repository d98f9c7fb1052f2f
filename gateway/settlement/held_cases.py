"""Cases in the transaction that decides: opened and closed with the event, and left to whoever is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.ledger import queries
from gateway.ledger.moderation.cases import (
    CaseKind,
    close_case,
    load_case,
    new_case,
    open_cases,
    put_case,
)
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from gateway.settlement.case_history import standing_event
from policies.errors import CaseClaimed, StateConflict
from policies.vocabulary import REMARKS, Reason, State

if TYPE_CHECKING:
    from gateway.settlement.settle import Decision

MODERATOR: Final = "moderator:"
"""Prefix of a moderator as the actor of an event. The account's name follows."""


async def claim_conflict(
    tx: Transaction, submission: StoredSubmission, decision: Decision
) -> StateConflict | None:
    """Return the conflict of a moderator's decision on a case that another one is in."""
    if not decision.actor.startswith(MODERATOR):
        return None
    case = await load_case(tx, submission.submission_id)
    moderator = decision.actor.removeprefix(MODERATOR)
    if case is not None and case.is_taken_from(moderator, now_ms=decision.at_ms):
        return CaseClaimed(f"`{case.claimed_by}` is in the case")
    return None


async def keep_case(tx: Transaction, submission: StoredSubmission, decision: Decision) -> None:
    """Close the case that a decision ends, open the one that it begins, and note in it what was remarked."""
    if decision.reason in REMARKS:
        await _note_remark(tx, submission, decision)
    else:
        if submission.state is not State.PENDING:  # which never has one
            await close_case(tx, submission.submission_id)
        if decision.to_state is State.HELD:
            case = new_case(submission, decision.reason, decision.at_ms)
            await open_cases([case._replace(waits_until_ms=decision.detail.get("answer_by_ms", 0))])(tx)


async def _note_remark(tx: Transaction, submission: StoredSubmission, decision: Decision) -> None:
    """Have a case wait for an answer or for somebody else, open the case of an appeal, or close it."""
    case = await load_case(tx, submission.submission_id)
    if decision.reason is Reason.APPEALED and case is None:
        history = await queries.history_of(submission.submission_id)(tx)
        decided_by = standing_event(history)["actor"]
        is_moderator = decided_by.startswith(MODERATOR)
        case = new_case(submission, Reason.APPEALED, decision.at_ms)._replace(
            kind=CaseKind.APPEAL,
            not_for=decided_by.removeprefix(MODERATOR) if is_moderator else "",
            needs_senior=1,
        )
        await open_cases([case])(tx)
    elif decision.reason is Reason.APPEAL_DENIED:
        await close_case(tx, submission.submission_id)
    elif case is not None and decision.reason is Reason.QUESTION_ANSWERED:
        await put_case(tx, case._replace(waits_until_ms=0))
    elif case is not None:
        free = case._replace(claimed_by="", claimed_until_ms=0)
        if decision.reason is Reason.APPROVED_ONCE:
            free = free._replace(not_for=decision.actor.removeprefix(MODERATOR), needs_senior=1)
        else:
            free = free._replace(waits_until_ms=decision.detail.get("answer_by_ms", 0))
        await put_case(tx, free)
