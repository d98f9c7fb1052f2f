"""Cases in the transaction that decides: opened and closed with the event, and left to whoever is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.ledger.moderation.cases import close_case, held_case, load_case, open_cases
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from policies.errors import CaseClaimed, StateConflict
from policies.vocabulary import State

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
    """Close the case that a decision ends, and open the one that it begins."""
    if decision.to_state is submission.state:
        return
    if submission.state is not State.PENDING:  # which never has one
        await close_case(tx, submission.submission_id)
    if decision.to_state is State.HELD:
        await open_cases([held_case(submission, decision.reason, decision.at_ms)])(tx)
