"""Lists of a family's boards, a page at a time: by name, by newest, by most played of late, and filtered.

A page reads its own rows alone, by an index that has its order. With filters it walks the boards that have
the first filter's value, looks at no more than WALK of them, and says where it stopped, so a page may be
short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, tuple_

from gateway.ledger.boards.board_rows import COLUMNS, StoredBoard, stored_board
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.index_pages import LIST, fetch_listed, is_listed
from gateway.ledger.schema import Int64, Text, board_fields, boards
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.opened_board import BoardState, OpenedBoard

WALK: Final = 1_000
"""Most boards that one filtered page looks at."""

PAGE_LIMIT: Final = 100
FILTERS: Final = 4
"""Most filters of one page."""


class BoardOrder(StrEnum):
    """The orders of a family's boards."""

    NAME = "name"
    NEWEST = "newest"
    PLAYED = "played"


class BoardCursor(NamedTuple):
    """The place of a board in an order, behind which a page begins."""

    board: str = ""
    opened_seq: int = 0
    plays: int = 0


class BoardPage(NamedTuple):
    """Boards in order, and the cursor of the next page, None after the last."""

    boards: list[OpenedBoard]
    next: BoardCursor | None


READ_STATES: Final = (BoardState.OPEN, BoardState.CLOSED)

_BEGINNINGS: Final[Mapping[BoardOrder, BoardCursor]] = {
    BoardOrder.NAME: BoardCursor(),
    BoardOrder.NEWEST: BoardCursor(opened_seq=2**63 - 1),
    BoardOrder.PLAYED: BoardCursor("~", plays=2**63 - 1),
}
"""A cursor before every board. Names are ASCII, and begin with a letter."""


def _after(table: Any) -> Mapping[BoardOrder, Any]:
    """Return the condition of being behind a cursor, for each order."""
    board, plays = bindparam("after", type_=Text), bindparam("plays", type_=Int64)
    return {
        BoardOrder.NAME: table.c.board > board,
        BoardOrder.NEWEST: table.c.opened_seq < bindparam("before", type_=Int64),
        BoardOrder.PLAYED: tuple_(table.c.plays, table.c.board) < tuple_(plays, board),
    }


def _order(table: Any) -> Mapping[BoardOrder, tuple[Any, ...]]:
    return {
        BoardOrder.NAME: (table.c.board,),
        BoardOrder.NEWEST: (table.c.opened_seq.desc(),),
        BoardOrder.PLAYED: (table.c.plays.desc(), table.c.board.desc()),
    }


_KEYS: Final[Mapping[BoardOrder, Callable[[StoredBoard], Any]]] = {
    BoardOrder.NAME: lambda stored: stored.board.board,
    BoardOrder.NEWEST: lambda stored: stored.opened_seq,
    BoardOrder.PLAYED: lambda stored: (stored.plays, stored.board.board),
}

_PAGES: Final = {
    order: Query(
        select(*COLUMNS)
        .where(
            boards.c.family == bindparam("of_family"),
            boards.c.state == bindparam("in_board_state"),
            _after(boards)[order],
        )
        .order_by(*_order(boards)[order])
        .limit(bindparam("count"))
    )
    for order in BoardOrder
}
_f = board_fields.c
_CANDIDATES: Final = {
    order: Query(
        select(_f.board, _f.opened_seq, _f.plays)
        .where(
            _f.family == bindparam("of_family"),
            _f.field == bindparam("of_field"),
            _f.value == bindparam("of_value"),
            _after(board_fields)[order],
        )
        .order_by(*_order(board_fields)[order])
        .limit(bindparam("count"))
    )
    for order in BoardOrder
}
_HAS_VALUE = Query(
    select(_f.board).where(
        is_listed(_f.board), _f.field == bindparam("of_field"), _f.value == bindparam("of_value")
    )
)


def boards_of_family(
    family: str,
    *,
    order: BoardOrder = BoardOrder.NAME,
    after: BoardCursor | None = None,
    filters: Sequence[tuple[str, str]] = (),
    states: Sequence[BoardState] = READ_STATES,
    count: int = PAGE_LIMIT,
) -> Operation[BoardPage]:
    """Return a page of a family's boards in these states, which have all values of `filters`.

    Without filters a page has `count` boards unless it is the last. With them it may have fewer, even none,
    and still say where to go on. Boards that are played in the meantime may move across the cursor of
    `BoardOrder.PLAYED`.
    """
    begin = after or _BEGINNINGS[order]

    async def work(tx: Transaction) -> BoardPage:
        if filters:
            return await _Walk(tx, family, order, filters, states).page(begin, count)
        rows: list[StoredBoard] = []
        for state in states:
            values = {"of_family": family, "in_board_state": state.value, "count": count + 1}
            rows += map(stored_board, await tx.rows(_PAGES[order], **values, **_bound(begin, order)))
        rows.sort(key=_KEYS[order], reverse=order is not BoardOrder.NAME)
        page = rows[:count]
        following = _cursor_of(page[-1]) if len(rows) > count else None
        return BoardPage([stored.board for stored in page], following)

    return work


class _Walk:
    """A walk over the boards with a value, which keeps those with the other values too."""

    def __init__(
        self,
        tx: Transaction,
        family: str,
        order: BoardOrder,
        filters: Sequence[tuple[str, str]],
        states: Sequence[BoardState],
    ) -> None:
        if len(filters) > FILTERS:
            raise ValueError(f"{len(filters)} filters are more than {FILTERS}")
        self._tx = tx
        self._family = family
        self._order = order
        self._filters = filters
        self._states = states

    async def page(self, begin: BoardCursor, count: int) -> BoardPage:
        """Return the page behind a cursor."""
        page: list[OpenedBoard] = []
        walked = 0
        while walked < WALK:
            candidates = await self._candidates(begin, LIST)
            stored = await self._kept([cursor.board for cursor in candidates])
            for cursor in candidates:
                if cursor.board in stored:
                    page.append(stored[cursor.board].board)
                if len(page) == count:
                    return BoardPage(page, cursor)
            if len(candidates) < LIST:
                return BoardPage(page, None)
            begin, walked = candidates[-1], walked + len(candidates)
        return BoardPage(page, begin)

    async def _candidates(self, begin: BoardCursor, count: int) -> list[BoardCursor]:
        field, value = self._filters[0]
        wanted = {"of_family": self._family, "of_field": field, "of_value": value, "count": count}
        rows = await self._tx.rows(_CANDIDATES[self._order], **wanted, **_bound(begin, self._order))
        return [BoardCursor(*row) for row in rows]

    async def _kept(self, names: list[str]) -> Mapping[str, StoredBoard]:
        for field, value in self._filters[1:]:
            rows = await fetch_listed(self._tx, _HAS_VALUE, names, of_field=field, of_value=value)
            having = {board for (board,) in rows}
            names = [name for name in names if name in having]
        stored = await load_boards(self._tx, names)
        return {name: row for name, row in stored.items() if row.board.state in self._states}


def _bound(cursor: BoardCursor, order: BoardOrder) -> dict[str, Any]:
    """Return the values of a cursor that the statements of an order bind."""
    if order is BoardOrder.NEWEST:
        return {"before": cursor.opened_seq}
    return {"after": cursor.board} | ({"plays": cursor.plays} if order is BoardOrder.PLAYED else {})


def _cursor_of(stored: StoredBoard) -> BoardCursor:
    return BoardCursor(stored.board.board, stored.opened_seq, stored.plays)
