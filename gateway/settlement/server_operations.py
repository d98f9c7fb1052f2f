"""What trusted servers ask for: all of a request's operations in one transaction or none, or each by itself.

A slot (board, player) converges whatever way its operations arrive. Of what has a version, that counts which is above
the highest version the slot was emptied at; on a `latest` board the highest alone. Whatever another order would have
undone is refused as stale. What has no version counts in the order in which it comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gateway.ledger import queries
from gateway.ledger.records import NewSubmission
from gateway.ledger.submissions import operations as stored
from gateway.ledger.submissions.operations import VERSION_LIMIT, ServerRequest, SlotVersion
from gateway.ledger.transaction import Operation, Transaction
from gateway.records import Change
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.settle import (
    Decision,
    LedgerWrites,
    SettledDecision,
    decide,
    fold,
    receive,
    trusted,
)
from policies.errors import ScoregateError, StateConflict
from policies.loader import Board
from policies.model import Operator
from policies.vocabulary import Reason, State

SLICE: Final = 250
"""Operations that are committed together where each is done by itself: a few hundredths of a second of the ledger."""

Show = Callable[[Sequence[Change]], Awaitable[Any]]
"""Brings changes that are durable to the index, now or within what the board's policy allows; may fail without harm."""


@dataclass(frozen=True, slots=True)
class ServerOperation:
    """A write (`new`), a correction (`new` in the place of `target`), or a removal of `target` or of the whole slot."""

    operation_id: str
    player: str
    content_digest: bytes
    version: int | None = None
    new: NewSubmission | None = None
    target: str | None = None
    why: str = ""


class PerformedOperation(NamedTuple):
    """An operation that is in the ledger: what it revoked, and whether this request put it there."""

    operation: ServerOperation
    revoked: tuple[str, ...]
    is_new: bool


class RefusalKind(StrEnum):
    """Why an operation cannot be done."""

    OTHER_CONTENT = "other-content"
    STALE = "stale"
    CONFLICT = "conflict"


class RefusedOperation(NamedTuple):
    """An operation that cannot be done, by its place in the request."""

    at: int
    kind: RefusalKind
    detail: str


class OperationsRefused(ScoregateError):
    """Operations of the request cannot be done; nothing was stored."""

    def __init__(self, refusals: Sequence[RefusedOperation]) -> None:
        super().__init__()
        self.refusals = tuple(refusals)


class _Impossible(Exception):
    """One operation cannot be done: why."""

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
    """What became of each operation of a request; durable on return. `show` is told the changes.

    Raises OperationsRefused, KeyRevoked, NonceReused or LedgerUnavailable, after each of which nothing has changed.
    """
    done, changes = await ledger.write(perform_all(board, request, operations))
    reach(Point.AFTER_SETTLE)
    await show(changes)
    return done


async def perform_each(
    ledger: LedgerWrites,
    board: Board,
    request: ServerRequest,
    operations: Sequence[ServerOperation],
    show: Show,
) -> list[PerformedOperation | RefusedOperation]:
    """What became of each operation, done or refused by itself; durable on return.

    They are committed a slice at a time, so that nobody else's write waits for all of them. `show` is told the changes
    of each slice. Raises KeyRevoked, NonceReused or LedgerUnavailable: what came before that is done, and is found so
    when the request is sent again.
    """
    outcomes: list[PerformedOperation | RefusedOperation] = []
    for first in range(0, len(operations), SLICE):
        some = operations[first : first + SLICE]
        told, changes = await ledger.write(_each(board, request, some, first))
        reach(Point.AFTER_SETTLE)
        await show(changes)
        outcomes += told
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
    """Which of these cannot be done. None is: the rest of their request was refused already. Raises as `perform`."""
    try:
        await ledger.write(perform_all(board, request, operations, is_refused=True))
    except OperationsRefused as refused:
        return refused.refusals
    return ()


def perform_all(
    board: Board, request: ServerRequest, operations: Sequence[ServerOperation], *, is_refused: bool = False
) -> Operation[tuple[list[PerformedOperation], list[Change]]]:
    """Every operation of a request, and the changes that the index has to learn. Raises as `perform`.

    With `is_refused` it always raises OperationsRefused, so that nothing is kept.
    """

    async def work(tx: Transaction) -> tuple[list[PerformedOperation], list[Change]]:
        await stored.check_request(tx, request)
        done: list[PerformedOperation] = []
        decided: list[SettledDecision] = []
        refusals: list[RefusedOperation] = []
        for at, operation in enumerate(operations):
            outcome = await _try(tx, board, request, operation, decided, at=at)
            if isinstance(outcome, PerformedOperation):
                done.append(outcome)
            else:
                refusals.append(outcome)
        if refusals or is_refused:
            raise OperationsRefused(refusals)
        return done, await fold(tx, board, decided)

    return work


async def _perform(
    tx: Transaction,
    board: Board,
    request: ServerRequest,
    operation: ServerOperation,
    decided: list[SettledDecision],
) -> PerformedOperation:
    """The operation, done now or before. Raises _Impossible."""
    known = await stored.known_operation(tx, operation.operation_id)
    if known and known.content_digest != operation.content_digest:
        raise _Impossible(RefusalKind.OTHER_CONTENT, "the operation id was used before, for something else")
    if known:
        return PerformedOperation(operation, known.revoked, is_new=False)
    slot = await _slot(tx, board, operation)
    revoked = await _targets(tx, board, operation)
    # Nothing was written until here, and nothing from here on is impossible: a refusal leaves no trace in a transaction
    # that others share.
    await _take_version(tx, board, operation, slot)
    decisions = [_revocation(request, operation, each) for each in revoked]
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
    """How far the slot is. Raises _Impossible if a later version than the operation's has settled the matter."""
    if operation.version is None:
        return SlotVersion()
    slot = await stored.slot_version(tx, board.name, operation.player)
    latest = _settled_at(board, operation, slot)
    if operation.version <= latest:
        raise _Impossible(RefusalKind.STALE, f"the slot is at version {latest}")
    return slot


async def _take_version(tx: Transaction, board: Board, operation: ServerOperation, slot: SlotVersion) -> None:
    """Notes the operation's version, if it has one."""
    version, is_removal = operation.version, operation.new is None
    if version is not None:
        await stored.raise_slot_version(
            tx, board.name, operation.player, slot, version, is_removal=is_removal
        )


def _settled_at(board: Board, operation: ServerOperation, slot: SlotVersion) -> int:
    """The version up to which nothing that such an operation does can be seen any more."""
    if operation.new and board.policy.operator is Operator.LATEST:
        return slot.version
    return slot.removed


async def _targets(tx: Transaction, board: Board, operation: ServerOperation) -> list[str]:
    """The submissions that the operation revokes."""
    if operation.target:
        found = await queries.load_submission(tx, operation.target)
        if found is None or found.player != operation.player:
            raise _Impossible(RefusalKind.CONFLICT, "the player has no such submission on the board")
        if found.board != board.name or found.state is not State.PROMOTED:
            raise _Impossible(
                RefusalKind.CONFLICT, "the submission does not count, so it cannot be taken back"
            )
        return [operation.target]
    if operation.new:
        return []
    up_to = VERSION_LIMIT if operation.version is None else operation.version
    return await stored.counting_in_slot(tx, board.name, operation.player, up_to=up_to)


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
        raise settled  # it was looked at in this very transaction
    return settled
