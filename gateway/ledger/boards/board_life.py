"""The lives of boards as the log tells them: boards follow from their events, and are compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import orjson
from sqlalchemy import bindparam, literal_column, select, tuple_

from gateway.ledger.boards.board_rows import (
    COLUMNS,
    NOTHING,
    LifeChange,
    LifeEvent,
    StoredBoard,
    board_after,
    board_row,
)
from gateway.ledger.ledger import LedgerReads
from gateway.ledger.schema import Int64, Text, boards, events
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.errors import LedgerTampered

PAGE: Final = 200
"""Boards that are compared with their events in one read."""

EVENTS_PAGE: Final = 1_000

BEHIND_ALL: Final = "~"
"""A text behind every name, which is ASCII and begins with a letter."""

_e, _b = events.c, boards.c
_IS_OF_BOARD: Final = _e.player == literal_column("''")
_of_boards = select(
    _e.board, _e.seq, _e.from_state, _e.to_state, _e.actor, _e.reason, _e.detail, _e.at_ms
).where(_IS_OF_BOARD)

_LIVES = Query(
    _of_boards.where(
        tuple_(_e.board, _e.seq)
        > tuple_(bindparam("after_board", type_=Text), bindparam("after_seq", type_=Int64)),
        _e.board <= bindparam("last_board"),
    )
    .order_by(_e.board, _e.seq)
    .limit(bindparam("count"))
)
_LIFE = Query(_of_boards.where(_e.board == bindparam("board")).order_by(_e.seq))
_BOARDS = Query(
    select(*COLUMNS).where(_b.board > bindparam("after")).order_by(_b.board).limit(bindparam("count"))
)


def life_of(board: str) -> Operation[list[LifeEvent]]:
    """Return the events of a board's life, oldest first."""

    async def work(tx: Transaction) -> list[LifeEvent]:
        return [_life_event(row) for row in await tx.rows(_LIFE, board=board)]

    return work


async def check_boards(ledger: LedgerReads) -> int:
    """Count the boards of families. Raises LedgerTampered for one that does not follow from its events."""
    count, after = 0, ""
    while after != BEHIND_ALL:
        page, after = await ledger.read(_compared(after))
        count += page
    return count


def _compared(after: str) -> Operation[tuple[int, str]]:
    """Compare the next boards with their events, in one snapshot; return how many, and the last of them."""

    async def work(tx: Transaction) -> tuple[int, str]:
        rows = await tx.rows(_BOARDS, after=after, count=PAGE)
        last = rows[-1][0] if len(rows) == PAGE else BEHIND_ALL
        expected = {stored.board.board: stored for stored in _folded(await _lives(tx, after, last))}
        for row in rows:
            if row[0] not in expected:
                raise LedgerTampered(f"board {row[0]} was inserted: no event opens it")
            if not _is_row_of(row, expected.pop(row[0])):
                raise LedgerTampered(f"board {row[0]} is not what its events say")
        for name, stored in expected.items():
            raise LedgerTampered(f"board {name}, which event {stored.opened_seq} opens, was removed")
        return len(rows), last

    return work


async def _lives(tx: Transaction, after: str, last: str) -> list[Row]:
    rows: list[Row] = []
    place: tuple[str, int] = (after, 2**63 - 1)
    while True:
        at = {"after_board": place[0], "after_seq": place[1], "last_board": last, "count": EVENTS_PAGE}
        page = await tx.rows(_LIVES, **at)
        rows += page
        if len(page) < EVENTS_PAGE:
            return rows
        place = (page[-1][0], page[-1][1])


def _folded(rows: Iterable[Row]) -> Iterator[StoredBoard]:
    """Yield the board that each board's events lead to.

    Raises LedgerTampered if they contradict each other.
    """
    for board, life in groupby(rows, key=lambda row: row[0]):
        stored: StoredBoard | None = None
        for row in life:
            state = stored.board.state.value if stored else NOTHING
            _, seq, from_state, to_state, *_ = row
            if from_state != state:
                raise LedgerTampered(f"event {seq} changes board {board} from {from_state}, which it was not")
            try:
                stored = board_after(stored, board, _life_event(row), to_state)
            except (ValueError, TypeError, KeyError) as error:
                raise LedgerTampered(f"event {seq} cannot follow on board {board}: {error}") from None
        assert stored is not None
        yield stored


def _life_event(row: Row) -> LifeEvent:
    _, seq, _, _, actor, reason, detail, at_ms = row
    return LifeEvent(seq, actor, at_ms, LifeChange(reason), orjson.loads(detail))


def _is_row_of(row: Row, expected: StoredBoard) -> bool:
    """Return whether a row is the board's, but for its plays."""
    return row[:-1] == board_row(expected)[:-1]
