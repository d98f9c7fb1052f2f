"""Opens boards of families, up to a thousand in one commit, each with an outcome of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import bindparam, select, update

from gateway.ledger.boards.board_rows import (
    NOTHING,
    BoardOutcome,
    BoardResult,
    FamilyTerms,
    LifeChange,
    LifeEvent,
    StoredBoard,
    board_row,
    content_of,
    detail_text,
    event_row,
)
from gateway.ledger.boards.field_filters import field_rows, values_of
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import (
    archived_windows,
    board_fields,
    boards,
    events,
    is_in,
    standings,
    submissions,
)
from gateway.ledger.transaction import Cells, Operation, Query, Transaction
from policies.errors import SettingRefused
from policies.opened_board import BoardState, OpenedBoard, refuse_unfit
from policies.vocabulary import State

BATCH_LIMIT: Final = 1_000
"""Most boards of one batch, so that other writes wait no longer for its commit than for a full group's."""

_OPENINGS = Query(select(events.c.seq, events.c.detail).where(is_listed(events.c.seq)))
_s = submissions.c
_WANTED: Final = (State.PENDING, State.HELD, State.PROMOTED)
_TRACES: Final = (
    *(
        Query(select(_s.seq).where(is_in(state), _s.board == bindparam("board")).limit(1))
        for state in _WANTED
    ),
    *(
        Query(
            select(table.c.window)
            .where(table.c.board == bindparam("board"))
            .order_by(*table.primary_key.columns)
            .limit(1)
        )
        for table in (standings, archived_windows)
    ),
)
"""Finds what keeps a name to its first board: a run that counts or may yet, a standing, an archive."""
_OPEN_AGAIN = Query(
    update(boards)
    .where(boards.c.board == bindparam("of_board"))
    .values(
        {
            column.name: bindparam(f"new_{column.name}")
            for column in boards.columns
            if column.name not in {"board", "lane", "family"}
        }
    )
)


def open_boards(
    terms: FamilyTerms, batch: Sequence[OpenedBoard], *, actor: str, at_ms: int
) -> Operation[list[BoardResult]]:
    """Open boards of a family, all in one commit, and return the outcome of each, in order.

    A board is opened, the same already, in conflict with what has its name, or refused. Their versions,
    states, times of opening and actors are set here. Raises ValueError for more than BATCH_LIMIT boards.
    """
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"{len(batch)} boards are more than {BATCH_LIMIT}")

    async def work(tx: Transaction) -> list[BoardResult]:
        known = await load_boards(tx, [board.board for board in batch])
        opening = _Opening(tx, terms, known, actor, at_ms, await newest_seq()(tx))
        opening.first_contents = await _first_contents(
            tx, [known[b.board] for b in batch if b.board in known]
        )
        results = [await opening.outcome_of(board) for board in batch]
        await opening.store()
        return results

    return work


class _Opening:
    """A batch on its way: what the ledger knows, and the rows that the batch adds."""

    def __init__(
        self,
        tx: Transaction,
        terms: FamilyTerms,
        known: dict[str, StoredBoard],
        actor: str,
        at_ms: int,
        newest_seq: int,
    ) -> None:
        self.first_contents: dict[int, str] = {}
        self._tx = tx
        self._terms = terms
        self._known = known
        self._actor = actor
        self._at_ms = at_ms
        self._seq = newest_seq
        self._boards: list[Cells] = []
        self._fields: list[Cells] = []
        self._events: list[Cells] = []

    async def outcome_of(self, request: OpenedBoard) -> BoardResult:
        """Decide on one board, and note its rows if it is opened."""
        refusal = refusal_of(request, self._terms)
        if refusal:
            return BoardResult(BoardOutcome.REFUSED, None, refusal)
        stored = self._known.get(request.board)
        if stored is None:
            return self._open(request, 1)
        if stored.board.state is not BoardState.DELETED:
            return self._compare(request, stored)
        if not self._terms.frees_names:
            return BoardResult(BoardOutcome.CONFLICT, None, "a deleted board has the name")
        if await _has_traces(self._tx, request.board):
            return BoardResult(BoardOutcome.CONFLICT, None, "a deleted board that was played has the name")
        return await self._open_again(request, stored)

    async def store(self) -> None:
        """Insert the rows of the boards that are opened."""
        await self._tx.insert(boards, self._boards)
        await self._tx.insert(board_fields, self._fields)
        await self._tx.insert(events, self._events)

    def _compare(self, request: OpenedBoard, stored: StoredBoard) -> BoardResult:
        """Return whether a board is what it is to be: as it is now, or as it was opened."""
        # A request that is sent again, after the board was changed, is not another board.
        content = detail_text(content_of(request))
        known = {detail_text(content_of(stored.board)), self.first_contents.get(stored.opened_seq)}
        if content in known:
            return BoardResult(BoardOutcome.SAME, stored.board)
        return BoardResult(BoardOutcome.CONFLICT, stored.board, "the name has other content")

    def _open(self, request: OpenedBoard, version: int) -> BoardResult:
        stored = self._note(request, NOTHING, version)
        self._boards.append(board_row(stored))
        return BoardResult(BoardOutcome.OPENED, stored.board)

    async def _open_again(self, request: OpenedBoard, before: StoredBoard) -> BoardResult:
        # The version goes on, so that no reader of the deleted board takes the new one for it.
        stored = self._note(request, BoardState.DELETED.value, before.board.version + 1)
        row = dict(zip(boards.columns.keys(), board_row(stored), strict=True))
        values = {f"new_{name}": value for name, value in row.items()}
        await self._tx.run(_OPEN_AGAIN, of_board=request.board, **values)
        return BoardResult(BoardOutcome.OPENED, stored.board)

    def _note(self, request: OpenedBoard, from_state: str, version: int) -> StoredBoard:
        """Note the event and the fields of a board that is opened, and return its row."""
        self._seq += 1
        board = replace(
            request,
            state=BoardState.OPEN,
            version=version,
            opened_at_ms=self._at_ms,
            opened_by=self._actor,
            opened_seq=self._seq,
        )
        detail = content_of(board)
        life = LifeEvent(self._seq, self._actor, self._at_ms, LifeChange.OPENED, detail)
        self._events.append(event_row(life, self._terms, board, from_state))
        stored = StoredBoard(board, self._seq, self._seq)
        self._fields += field_rows(stored, values_of(board.metadata, self._terms.fields))
        self._known[board.board] = stored
        self.first_contents[self._seq] = detail_text(detail)
        return stored


def refusal_of(request: OpenedBoard, terms: FamilyTerms) -> str:
    """Return why no board of the family may be so, empty if it may."""
    if request.family != terms.family:
        return f"board: it is of the family {request.family}"
    try:
        refuse_unfit(request)
        values_of(request.metadata, terms.fields)
    except SettingRefused as error:
        return f"{'.'.join(error.location)}: {error}"
    return ""


async def _first_contents(tx: Transaction, known: Sequence[StoredBoard]) -> dict[int, str]:
    """Return what boards were opened with, by the events that opened them."""
    rows = await fetch_listed(tx, _OPENINGS, [stored.opened_seq for stored in known])
    return dict(rows)


async def _has_traces(tx: Transaction, board: str) -> bool:
    """Return whether something was played on a board that is, or may yet be, part of it."""
    for query in _TRACES:
        if await tx.rows(query, board=board):
            return True
    return False
