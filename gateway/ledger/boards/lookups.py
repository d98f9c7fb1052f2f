"""Boards of families by name, and those whose time to close has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, literal_column, select

from gateway.ledger.boards.board_rows import COLUMNS, StoredBoard, stored_board
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import boards
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.opened_board import OpenedBoard, names_of_family

_b = boards.c

_LISTED = Query(select(*COLUMNS).where(is_listed(_b.board)))
_NAMES = Query(
    select(_b.board)
    .where(_b.board > bindparam("after"), _b.board < bindparam("beyond"))
    .order_by(_b.board)
    .limit(bindparam("count"))
)
_OPEN: Final = boards.c.state == literal_column("'open'")
_TO_CLOSE = Query(
    select(*COLUMNS)
    .where(_OPEN, is_listed(_b.lane), _b.closes_at_ms <= bindparam("now_ms"))
    .limit(bindparam("count"))
)


def boards_named(names: Sequence[str]) -> Operation[dict[str, OpenedBoard]]:
    """Return those of these boards that were ever opened, including closed and deleted ones, by name."""

    async def work(tx: Transaction) -> dict[str, OpenedBoard]:
        stored = await load_boards(tx, names)
        return {name: stored[name].board for name in stored}

    return work


def names_after(family: str, after: str, *, count: int) -> Operation[list[str]]:
    """Return the next boards of a family that were ever opened, after one, by name."""
    first, beyond = names_of_family(family)

    async def work(tx: Transaction) -> list[str]:
        rows = await tx.rows(_NAMES, after=max(after, first), beyond=beyond, count=count)
        return [row[0] for row in rows]

    return work


async def load_boards(tx: Transaction, names: Sequence[str]) -> dict[str, StoredBoard]:
    """Return the rows of those of these boards that were ever opened, inside a transaction."""
    rows = [stored_board(row) for row in await fetch_listed(tx, _LISTED, names)]
    return {stored.board.board: stored for stored in rows}


def boards_to_close(lanes: Sequence[int], *, now_ms: int, count: int) -> Operation[list[OpenedBoard]]:
    """Return boards of some lanes that are open past their `closes_at_ms`, at most `count` per 64 lanes.

    Closing them takes them out of the index that this reads.
    """

    async def work(tx: Transaction) -> list[OpenedBoard]:
        rows = await fetch_listed(tx, _TO_CLOSE, lanes, now_ms=now_ms, count=count)
        return [stored_board(row).board for row in rows]

    return work
