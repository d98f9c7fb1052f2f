"""Changes boards of families: what they say and may narrow, and whether they are open, closed or deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from sqlalchemy import bindparam, update

from gateway.ledger.archive.windows import withdraw
from gateway.ledger.boards.board_opening import BATCH_LIMIT, refusal_of
from gateway.ledger.boards.board_rows import (
    CHANGING,
    WHY,
    BoardOutcome,
    BoardResult,
    FamilyTerms,
    LifeChange,
    LifeEvent,
    StoredBoard,
    board_row,
    content_changes,
    event_row,
    keeps_its_content,
)
from gateway.ledger.boards.field_filters import put_fields, values_of
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, note
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import boards, events
from gateway.ledger.transaction import Cells, Operation, Query, Transaction
from policies.model import WindowKind
from policies.opened_board import BoardState, OpenedBoard

FIRST_LOOK_MS: Final = 10_000
"""Time from a board's closing to the first look at its archive: every catalogue has it as closed by then."""

CLOSED_SINCE: Final = "closes_at: a closed board's is when it closed; reopen the board first"

_COLUMNS: Final = (*CHANGING, "state", "version", "seq")
_CHANGE = Query(
    update(boards)
    .where(boards.c.board == bindparam("of_board"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS})
)
_TURNS: Final[Mapping[tuple[BoardState, BoardState], LifeChange]] = {
    (BoardState.OPEN, BoardState.CLOSED): LifeChange.CLOSED,
    (BoardState.CLOSED, BoardState.OPEN): LifeChange.REOPENED,
    (BoardState.OPEN, BoardState.DELETED): LifeChange.DELETED,
    (BoardState.CLOSED, BoardState.DELETED): LifeChange.DELETED,
}
"""The changes of state that boards may go through. Opening a deleted board's name again makes a new board."""


def change_boards(
    terms: FamilyTerms, batch: Sequence[OpenedBoard], *, actor: str, at_ms: int
) -> Operation[list[BoardResult]]:
    """Change boards of a family to what is given, all in one commit, and return the outcome of each.

    Each `version` must be that of the board in the ledger; then title, metadata, bounds and times become
    those given. A board that is so already is the same, whatever its version, because the request may have
    been sent again. Raises ValueError for more than BATCH_LIMIT boards.
    """

    async def work(tx: Transaction) -> list[BoardResult]:
        changes = await _Changes.begin(tx, terms, [board.board for board in batch], actor, at_ms)
        results = [await changes.change(board) for board in batch]
        await changes.store()
        return results

    return _bounded(batch, work)


def set_states(
    terms: FamilyTerms,
    names: Sequence[str],
    state: BoardState,
    *,
    actor: str,
    at_ms: int,
    is_due: bool = False,
    why: str = "",
) -> Operation[list[BoardResult]]:
    """Close, reopen or delete boards of a family, all in one commit, and return the outcome of each.

    With `is_due` only boards are closed whose `closes_at_ms` has come; others are the same. Raises ValueError
    for more than BATCH_LIMIT boards.
    """

    async def work(tx: Transaction) -> list[BoardResult]:
        changes = await _Changes.begin(tx, terms, names, actor, at_ms)
        results = [await changes.turn(name, state, why, is_due=is_due) for name in names]
        await changes.store()
        return results

    return _bounded(names, work)


def _bounded(batch: Sequence[Any], work: Operation[list[BoardResult]]) -> Operation[list[BoardResult]]:
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"{len(batch)} boards are more than {BATCH_LIMIT}")
    return work


class _Changes:
    """A batch of changes on its way: the boards as they are now, and the events that the batch adds."""

    def __init__(
        self,
        tx: Transaction,
        terms: FamilyTerms,
        known: dict[str, StoredBoard],
        actor: str,
        at_ms: int,
        seq: int,
    ) -> None:
        self._tx = tx
        self._terms = terms
        self._known = known
        self._actor = actor
        self._at_ms = at_ms
        self._seq = seq
        self._events: list[Cells] = []

    @classmethod
    async def begin(
        cls, tx: Transaction, terms: FamilyTerms, names: Sequence[str], actor: str, at_ms: int
    ) -> Self:
        """Read the boards of a batch."""
        return cls(tx, terms, await load_boards(tx, names), actor, at_ms, await newest_seq()(tx))

    async def store(self) -> None:
        """Insert the events."""
        await self._tx.insert(events, self._events)

    async def change(self, request: OpenedBoard) -> BoardResult:
        """Change what one board says and may narrow."""
        stored = self._of_family(request.board)
        if stored is None or stored.board.state is BoardState.DELETED:
            return BoardResult(BoardOutcome.UNKNOWN, None)
        before = stored.board
        after = replace(
            before, **{name: getattr(request, name) for name in CHANGING}, version=before.version + 1
        )
        refusal = self._refusal(before, request, after)
        if refusal:
            return BoardResult(BoardOutcome.REFUSED, before, refusal)
        changed = content_changes(before, after)
        if not changed:
            return BoardResult(BoardOutcome.SAME, before)
        if before.state is BoardState.CLOSED and "closes_at_ms" in changed:
            return BoardResult(BoardOutcome.REFUSED, before, CLOSED_SINCE)
        if request.version != before.version:
            return BoardResult(BoardOutcome.CONFLICT, before, "it was changed since it was read")
        return await self._put(stored, after, LifeChange.CHANGED, changed)

    async def turn(self, name: str, state: BoardState, why: str, *, is_due: bool) -> BoardResult:
        """Close, reopen or delete one board."""
        stored = self._of_family(name)
        if stored is None:
            return BoardResult(BoardOutcome.UNKNOWN, None)
        before = stored.board
        is_early = is_due and (before.closes_at_ms is None or before.closes_at_ms > self._at_ms)
        if before.state is state or is_early:
            return BoardResult(BoardOutcome.SAME, before)
        reason = _TURNS.get((before.state, state))
        if reason is None:
            return BoardResult(BoardOutcome.REFUSED, before, f"a {before.state} board never becomes {state}")
        after = self._turned(before, state)
        detail = content_changes(before, after) | ({WHY: why} if why else {})
        result = await self._put(stored, after, reason, detail)
        await self._archive_or_withdraw(after)
        return result

    async def _archive_or_withdraw(self, board: OpenedBoard) -> None:
        """Have a closed board's `alltime` archived, and take that of any other out of the archive."""
        if board.state is not BoardState.CLOSED:
            await withdraw(self._tx, board.board)
            return
        due_at_ms = self._at_ms + FIRST_LOOK_MS
        alltime = WindowKind.ALLTIME.value
        await note(
            self._tx,
            [DueDuty(BoardDuty.ARCHIVE, board.board, alltime, due_at_ms, self._seq, self._seq)],
        )

    def _of_family(self, name: str) -> StoredBoard | None:
        stored = self._known.get(name)
        return stored if stored and stored.board.family == self._terms.family else None

    def _refusal(self, before: OpenedBoard, request: OpenedBoard, after: OpenedBoard) -> str:
        if not keeps_its_content(before, request):
            return "parameters and asset never change"
        return refusal_of(after, self._terms)

    def _turned(self, before: OpenedBoard, state: BoardState) -> OpenedBoard:
        """Return the board in another state. A closed board's `closes_at_ms` is when it closed."""
        opens_at_ms, closes_at_ms = before.opens_at_ms, before.closes_at_ms
        is_over = closes_at_ms is not None and closes_at_ms <= self._at_ms
        if state is BoardState.OPEN and is_over:
            closes_at_ms = None
        if state is BoardState.CLOSED and not is_over:
            closes_at_ms = self._at_ms
            if opens_at_ms is not None and opens_at_ms >= closes_at_ms:
                opens_at_ms = None  # it closed before it was to open
        return replace(
            before,
            state=state,
            opens_at_ms=opens_at_ms,
            closes_at_ms=closes_at_ms,
            version=before.version + 1,
        )

    async def _put(
        self, stored: StoredBoard, after: OpenedBoard, reason: LifeChange, detail: Mapping[str, Any]
    ) -> BoardResult:
        self._seq += 1
        life = LifeEvent(self._seq, self._actor, self._at_ms, reason, detail)
        self._events.append(event_row(life, self._terms, after, stored.board.state.value))
        changed = replace(stored, board=after, seq=self._seq)
        row = dict(zip(boards.columns.keys(), board_row(changed), strict=True))
        await self._tx.run(_CHANGE, of_board=after.board, **{f"new_{name}": row[name] for name in _COLUMNS})
        if "metadata" in detail or after.state is BoardState.DELETED:
            is_read = after.state is not BoardState.DELETED
            values = values_of(after.metadata, self._terms.fields) if is_read else frozenset()
            await put_fields(self._tx, changed, values)
        self._known[after.board] = changed
        return BoardResult(BoardOutcome.CHANGED, after)
