"""Operations of trusted servers: all of a request in one transaction, or each by itself.

A slot (board, player) converges in whatever order its operations arrive. An operation with a version counts
if the version is above the highest at which the slot was emptied; on a `latest` board only the highest
version counts. An operation that another order would have undone is refused as stale. Operations without a
version count in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gateway.ledger import queries
from gateway.ledger.moderation.bans import state_without_bans
from gateway.ledger.players.merges import merges_in_force
from gateway.ledger.records import NewSubmission
from gateway.ledger.submissions import operations as stored
from gateway.ledger.submissions.operations import VERSION_LIMIT, ServerRequest, SlotVersion
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.decision_records import Decision, SettledDecision, trusted
from gateway.settlement.settle import LedgerWrites, decide, fold, receive
from gateway.shared_records import Change
from policies.choices import Operator
from policies.errors import ScoregateError, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State

SLICE: Final = 250
"""Operations per commit where each is done by itself. Larger slices would keep other writers waiting."""

Show = Callable[[Sequence[Change]], Awaitable[Any]]
"""Projects durable changes, now or within the staleness of the policy. A failure does no harm."""


@dataclass(frozen=True, slots=True)
class ServerOperation:
    """A write (`new`), a correction (`new` instead of `target`), or a removal of `target` or of the slot."""

    operation_id: str
    player: str
    content_digest: bytes
    version: int | None = None
    new: NewSubmission | None = None
    target: str | None = None
    why: str = ""


class PerformedOperation(NamedTuple):
    """An operation that is in the ledger, the submissions that it revoked, and whether it is new."""

    operation: ServerOperation
    revoked: tuple[str, ...]
    is_new: bool


class RefusalKind(StrEnum):
    """The reasons for which an operation is refused."""

    OTHER_CONTENT = "other-content"
    STALE = "stale"
    CONFLICT = "conflict"


class RefusedOperation(NamedTuple):
    """The refusal of the operation at index `at` of the request."""

    at: int
    kind: RefusalKind
    detail: str


class OperationsRefused(ScoregateError):
    """Operations of the request were refused; nothing was stored."""

    def __init__(self, refusals: Sequence[RefusedOperation]) -> None:
        super().__init__()
        self.refusals = tuple(refusals)


class _Impossible(Exception):
    """The reason for which one operation cannot be done."""

    def __init__(self, kind: RefusalKind, detail: str) -> None:
        self.kind = kind
        self.detail = detail


async def perform(
    ledger: LedgerWrites,
    board: Board,
    request: ServerRequest,
    operations: Sequence[ServerOperation],
    show: Show,
) -> list[PerformedOperation]:
    """Perform all operations of a request, durably, and pass the changes to `show`.

    Raises OperationsRefused, KeyRevoked, NonceReused or LedgerUnavailable; then nothing has changed.
    """
    performed, changes = await ledger.write(perform_all(board, request, operations))
    reach(Point.AFTER_SETTLE)
    await show(changes)
    return performed


async def perform_each(
    ledger: LedgerWrites,
    board: Board,
    request: ServerRequest,
    operations: Sequence[ServerOperation],
    show: Show,
) -> list[PerformedOperation | RefusedOperation]:
    """Perform or refuse each operation by itself, durably, and pass the changes of each slice to `show`.

    Raises KeyRevoked, NonceReused or LedgerUnavailable. Earlier slices are then done, and a repeated request
    finds them so.
    """
    outcomes: list[PerformedOperation | RefusedOperation] = []
    for first in range(0, len(operations), SLICE):
        some = operations[first : first + SLICE]
        outcomes_of_slice, changes = await ledger.write(_each(board, request, some, first))
        reach(Point.AFTER_SETTLE)
        await show(changes)
        outcomes += outcomes_of_slice
    return outcomes


def _each(
    board: Board, request: ServerRequest, operations: Sequence[ServerOperation], first: int
) -> Operation[tuple[list[PerformedOperation | RefusedOperation], list[Change]]]:
    async def work(tx: Transaction) -> tuple[list[PerformedOperation | RefusedOperation], list[Change]]:
        await stored.check_request(tx, request)
        decided: list[SettledDecision] = []
        outcomes = [
            await _try(tx, board, request, operation, decided, at=at)
            for at, operation in enumerate(operations, start=first)
        ]
        return outcomes, await fold(tx, board, decided)

    return work


async def _try(
    tx: Transaction,
    board: Board,
    request: ServerRequest,
    operation: ServerOperation,
    decided: list[SettledDecision],
    *,
    at: int,
) -> PerformedOperation | RefusedOperation:
    try:
        return await _perform(tx, board, request, operation, decided)
    except _Impossible as impossible:
        return RefusedOperation(at, impossible.kind, impossible.detail)


async def find_refusals(
    ledger: LedgerWrites, board: Board, request: ServerRequest, operations: Sequence[ServerOperation]
) -> tuple[RefusedOperation, ...]:
    """Return the refusals among operations of a refused request, without storing any. Raises as `perform`."""
    try:
        await ledger.write(perform_all(board, request, operations, is_refused=True))
    except OperationsRefused as refused:
        return refused.refusals
    return ()


def perform_all(
    board: Board, request: ServerRequest, operations: Sequence[ServerOperation], *, is_refused: bool = False
) -> Operation[tuple[list[PerformedOperation], list[Change]]]:
    """Perform all operations; return them with the changes for the index. Raises as `perform`.

    With `is_refused` it always raises OperationsRefused, which rolls the transaction back.
    """

    async def work(tx: Transaction) -> tuple[list[PerformedOperation], list[Change]]:
        await stored.check_request(tx, request)
        performed: list[PerformedOperation] = []
        decided: list[SettledDecision] = []
        refusals: list[RefusedOperation] = []
        for at, operation in enumerate(operations):
            outcome = await _try(tx, board, request, operation, decided, at=at)
            if isinstance(outcome, PerformedOperation):
                performed.append(outcome)
            else:
                refusals.append(outcome)
        if refusals or is_refused:
            raise OperationsRefused(refusals)
        return performed, await fold(tx, board, decided)

    return work


async def _perform(
    tx: Transaction,
    board: Board,
    request: ServerRequest,
    operation: ServerOperation,
    decided: list[SettledDecision],
) -> PerformedOperation:
    """Perform an operation, unless it was done before. Raises _Impossible."""
    earlier = await stored.known_operation(tx, operation.operation_id)
    if earlier and earlier.content_digest != operation.content_digest:
        raise _Impossible(RefusalKind.OTHER_CONTENT, "the operation id was used before, with another body")
    if earlier:
        return PerformedOperation(operation, earlier.revoked, is_new=False)
    slot = await _slot(tx, board, operation)
    revoked = await _targets(tx, board, operation)
    # All checks come before the first write: other operations share this transaction, and a refusal must
    # leave no trace in it.
    await _take_version(tx, board, operation, slot)
    decisions = [_revocation(request, operation, submission_id) for submission_id in revoked]
    if operation.new:
        await receive(tx, operation.new)
        decisions.append(trusted(operation.operation_id, request.credential, request.at_ms))
    decided += [await _settled(tx, board, decision) for decision in decisions]
    await stored.add_operation(
        tx,
        request,
        board.name,
        operation.player,
        operation_id=operation.operation_id,
        content_digest=operation.content_digest,
        version=operation.version,
        revoked=revoked,
    )
    return PerformedOperation(operation, tuple(revoked), is_new=True)


async def _slot(tx: Transaction, board: Board, operation: ServerOperation) -> SlotVersion:
    """Return the slot's version. Raises _Impossible if the operation's version is too old for it."""
    if operation.version is None:
        return SlotVersion()
    slot = await stored.slot_version(tx, board.name, operation.player)
    latest = _settled_at(board, operation, slot)
    if operation.version <= latest:
        raise _Impossible(RefusalKind.STALE, f"the slot is at version {latest}")
    return slot


async def _take_version(tx: Transaction, board: Board, operation: ServerOperation, slot: SlotVersion) -> None:
    """Store the operation's version, if it has one."""
    version, is_removal = operation.version, operation.new is None
    if version is not None:
        await stored.raise_slot_version(
            tx, board.name, operation.player, slot, version, is_removal=is_removal
        )


def _settled_at(board: Board, operation: ServerOperation, slot: SlotVersion) -> int:
    """Return the version up to which such an operation has no effect any more."""
    if operation.new and board.policy.operator is Operator.LATEST:
        return slot.version
    return slot.removed


async def _targets(tx: Transaction, board: Board, operation: ServerOperation) -> list[str]:
    """Return the submissions that the operation revokes. Raises _Impossible."""
    if operation.target:
        target = await queries.load_submission(tx, operation.target)
        if target is None or operation.player not in target.players:
            raise _Impossible(RefusalKind.CONFLICT, "the player has no such submission on the board")
        state = state_without_bans(target.state, target.reason)
        if target.board != board.name or state is not State.PROMOTED:
            raise _Impossible(
                RefusalKind.CONFLICT, "the submission does not count, so it cannot be taken back"
            )
        return [operation.target]
    if operation.new:
        return []
    return await _counting_of(tx, board, operation)


async def _counting_of(tx: Transaction, board: Board, operation: ServerOperation) -> list[str]:
    """Return what counts for the player, and what they played that a merge lets count for another one.

    Else who is merged away keeps what a server removes by the only name that it knows.
    """
    player = operation.player
    up_to = VERSION_LIMIT if operation.version is None else operation.version
    counting = await stored.counting_in_slot(tx, board.name, player, up_to=up_to)
    merge = (await merges_in_force(tx, [player])).get(player)
    for each in await stored.counting_in_slot(tx, board.name, merge.target, up_to=up_to) if merge else ():
        submission = await queries.load_submission(tx, each)
        if submission and submission.played_by == player:
            counting.append(each)
    return counting


def _revocation(request: ServerRequest, operation: ServerOperation, submission_id: str) -> Decision:
    reason = Reason.CORRECTED if operation.new else Reason.REMOVED_BY_SERVER
    detail = {"operation": operation.operation_id} | ({"why": operation.why} if operation.why else {})
    counting = frozenset({State.PROMOTED})
    return Decision(
        submission_id, State.REVOKED, request.credential, reason, request.at_ms, counting, detail=detail
    )


async def _settled(tx: Transaction, board: Board, decision: Decision) -> SettledDecision:
    settled = await decide(tx, board, decision)
    if isinstance(settled, StateConflict):
        raise settled  # a bug: `_targets` has checked the state in this transaction
    return settled
