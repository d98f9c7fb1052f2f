"""Batches: they are begun, filled, applied, reversed and abandoned.

A steward goes on with what a process left of one, wherever that was.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gateway.ledger import queries
from gateway.ledger.judgement.expiry import UNDO_DAYS, UNDO_MS
from gateway.ledger.moderation import batch_items, batches
from gateway.ledger.moderation.batch_items import FIRST, BatchItem
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.passed_boards import without_passed
from policies.decision_codes import DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.vocabulary import Reason, State

LIMIT: Final = 10_000
"""Most submissions that a moderator's batch selects."""

MOST_UNFINISHED: Final = 20
"""Most batches of a moderator that are selected, wait to be applied, or are being decided."""

KEPT_MS: Final = 86_400_000
"""The time for which a preview is kept."""

OPERATOR: Final = "operator"
"""The actor of batches from the command line."""

ON_BOARDS: Final = "boards"
"""The beginning of the place of a batch that is compared with podiums, board by board."""

PREVIEWED: Final = 2
"""The version of every preview."""


class BatchMove(NamedTuple):
    """What a batch makes of its submissions: from a state to another, for a reason."""

    from_state: State
    to_state: State
    reason: Reason


MOVES: Final[Mapping[DecisionKind, BatchMove]] = {
    DecisionKind.APPROVE: BatchMove(State.HELD, State.PROMOTED, Reason.APPROVED),
    DecisionKind.REJECT: BatchMove(State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR),
    DecisionKind.REVOKE: BatchMove(State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR),
    DecisionKind.REINSTATE: BatchMove(State.REVOKED, State.PROMOTED, Reason.REINSTATED),
}
"""What moderators can decide on many submissions at once."""

_ABANDONED_FROM: Final = frozenset(
    {BatchState.FILLING, BatchState.SELECTING, BatchState.PREVIEWED, BatchState.REFUSED}
)


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """A batch as it is stored now, and whether this request changed it."""

    batch: Batch
    is_new: bool


def batch_id_of(actor: str, operation: str) -> str:
    """Return the id of the batch of an operation, which no other moderator's operation has."""
    return hashlib.sha256(f"{actor}\n{operation}".encode()).hexdigest()[:24]


def move_of(batch: Batch) -> BatchMove:
    """Return what a batch makes of its submissions."""
    return MOVES[DecisionKind(batch.action)]._replace(reason=batch.reason)


def begin(new: Batch) -> Operation[BatchOutcome]:
    """Store a new batch, unless it is stored. Raises StateConflict if a moderator has too many unfinished."""

    async def work(tx: Transaction) -> BatchOutcome:
        if stored := await batches.load_batch(tx, new.batch_id):
            return BatchOutcome(stored, is_new=False)
        if new.actor.startswith(MODERATOR):
            count = await batches.count_unfinished(tx, new.actor, most=MOST_UNFINISHED)
            if count == MOST_UNFINISHED:
                raise StateConflict(f"you have {count} batches that are not finished; apply or abandon some")
        begun = replace(new, begin_seq=await queries.newest_seq()(tx))
        await batches.add(tx, begun)
        return BatchOutcome(begun, is_new=True)

    return work


def filling(
    scopes: Sequence[str],
    reason: Reason,
    selection: Mapping[str, Any],
    detail: Mapping[str, Any],
    now_ms: int,
) -> Batch:
    """Return a batch of an operator that revokes for a reason what a command puts into it."""
    return Batch(
        batch_id=secrets.token_hex(12),
        actor=OPERATOR,
        scopes=tuple(scopes),
        selection=selection,
        action=DecisionKind.REVOKE.value,
        reason=reason,
        detail=detail,
        state=BatchState.FILLING,
        version=1,
        begin_seq=0,
        created_at_ms=now_ms,
        changed_at_ms=now_ms,
        due_at_ms=now_ms + KEPT_MS,
    )


def put_items(batch_id: str, items: Sequence[BatchItem], *, now_ms: int) -> Operation[None]:
    """Add items to a batch that a command fills. Raises StateConflict if it is filled no more."""

    async def work(tx: Transaction) -> None:
        batch = await _filled(tx, batch_id)
        await batch_items.add_items(tx, batch_id, items)
        left = [item for item in items if not item.is_waiting]
        more = replace(batch, items=batch.items + len(items), due_at_ms=now_ms + KEPT_MS)
        await batches.change(tx, more.with_outcomes([], left))

    return work


def end_filling(batch_id: str, *, now_ms: int) -> Operation[None]:
    """Have a batch previewed that a command has filled. Raises StateConflict if it is filled no more."""

    async def work(tx: Transaction) -> None:
        batch = await _filled(tx, batch_id)
        await batches.change(
            tx, replace(batch, state=BatchState.SELECTING, due_at_ms=now_ms, place=(ON_BOARDS, ""))
        )

    return work


async def _filled(tx: Transaction, batch_id: str) -> Batch:
    batch = await _load(tx, batch_id)
    if batch.state is not BatchState.FILLING:
        raise StateConflict(f"the batch is {batch.state.value}, not {BatchState.FILLING.value}")
    return batch


def apply(
    batch_id: str, *, version: int, by: str, now_ms: int, not_players: Sequence[str] = ()
) -> Operation[BatchOutcome]:
    """Have a batch decided by `by`, but for submissions of `not_players`.

    `version` is that of the preview. Raises CaseOvertaken if the batch has another, and StateConflict if it
    is no preview.
    """

    async def work(tx: Transaction) -> BatchOutcome:
        batch = await _load(tx, batch_id)
        is_applied = batch.state in (BatchState.APPLYING, BatchState.APPLIED)
        if is_applied and (version, by) == (PREVIEWED, batch.decided_by):
            return BatchOutcome(batch, is_new=False)
        if version != batch.version:
            raise CaseOvertaken("the batch has changed since it was previewed")
        if batch.state is not BatchState.PREVIEWED:
            raise StateConflict(f"the batch is {batch.state.value}, not {BatchState.PREVIEWED.value}")
        theirs = {"decided_by": by, "preview": _for(batch, not_players)}
        return await _begun(tx, batch, BatchState.APPLYING, now_ms, **theirs)

    return work


def reverse(
    batch_id: str, *, by: str, now_ms: int, not_players: Sequence[str] = ()
) -> Operation[BatchOutcome]:
    """Have what a batch decided reversed by `by`, but for submissions of `not_players`.

    Raises StateConflict unless it was applied, at least in part, and not too long ago for cases to be held
    again.
    """

    async def work(tx: Transaction) -> BatchOutcome:
        batch = await _load(tx, batch_id)
        if batch.state in (BatchState.REVERSING, BatchState.REVERSED):
            return BatchOutcome(batch, is_new=False)
        if batch.state not in (BatchState.APPLYING, BatchState.APPLIED):
            raise StateConflict(f"the batch is {batch.state.value}, not {BatchState.APPLIED.value}")
        if move_of(batch).from_state is State.HELD and now_ms - batch.changed_at_ms > UNDO_MS:
            raise StateConflict(f"the batch is older than {UNDO_DAYS} days")
        theirs = {"reversed_by": by, "preview": _for(batch, not_players)}
        return await _begun(tx, batch, BatchState.REVERSING, now_ms, **theirs)

    return work


def abandon(batch_id: str, *, now_ms: int) -> Operation[BatchOutcome]:
    """Let a batch go before it is applied. Raises StateConflict once it is."""

    async def work(tx: Transaction) -> BatchOutcome:
        batch = await _load(tx, batch_id)
        if batch.state is BatchState.ABANDONED:
            return BatchOutcome(batch, is_new=False)
        if batch.state not in _ABANDONED_FROM:
            raise StateConflict(f"the batch is {batch.state.value}; reverse it instead")
        return await _begun(tx, batch, BatchState.ABANDONED, now_ms)

    return work


def _for(batch: Batch, not_players: Sequence[str]) -> dict[str, Any]:
    """Return the preview of a batch with the players of whoever turns it."""
    return {**without_passed(dict(batch.preview)), "not_players": sorted(not_players)}


async def _load(tx: Transaction, batch_id: str) -> Batch:
    batch = await batches.load_batch(tx, batch_id)
    if batch is None:
        raise StateConflict("there is no such batch any more")
    return batch


async def _begun(
    tx: Transaction, batch: Batch, state: BatchState, now_ms: int, **changes: Any
) -> BatchOutcome:
    """Store that the work of a state begins."""
    changed = entered(batch, state, now_ms=now_ms, due_at_ms=now_ms, place=FIRST, **changes)
    await batches.change(tx, changed)
    return BatchOutcome(changed, is_new=True)


def entered(
    batch: Batch, state: BatchState, *, now_ms: int, due_at_ms: int | None = None, **changes: Any
) -> Batch:
    """Return a batch in its next state."""
    times: dict[str, Any] = {"changed_at_ms": now_ms, "due_at_ms": due_at_ms}
    return replace(batch, state=state, version=batch.version + 1, **times, **changes)


def has_work(batch: Batch, *, now_ms: int) -> bool:
    """Return whether there is something to be done with a batch now."""
    return batch.due_at_ms is not None and batch.due_at_ms <= now_ms
