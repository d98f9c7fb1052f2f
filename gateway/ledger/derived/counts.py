"""Counts of each board: how many submissions it received, and how many of them count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import board_counts
from gateway.ledger.transaction import Operation, Query, Transaction

COUNTED_AT_ONCE: Final = 1_000
"""The most boards whose counts are read at once."""

_c = board_counts.c

_COUNTS = Query(select(_c.attempts, _c.promoted).where(_c.board == bindparam("board")))
_put = insert(board_counts)
_LISTED = Query(
    select(_c.board, _c.attempts, _c.promoted)
    .where(_c.board > bindparam("after"))
    .order_by(_c.board)
    .limit(bindparam("most"))
)
_ADD = Query(
    _put.on_conflict_do_update(
        index_elements=["board"],
        set_={name: _c[name] + _put.excluded[name] for name in ("attempts", "promoted")},
    )
)
_FORGET = Query(delete(board_counts))


class BoardCounts(NamedTuple):
    """The submissions that a board has received, and those of them that count now."""

    attempts: int = 0
    promoted: int = 0


def counts_of(board: str) -> Operation[BoardCounts]:
    """Return the counts of a board."""

    async def work(tx: Transaction) -> BoardCounts:
        rows = await tx.rows(_COUNTS, board=board)
        return BoardCounts(*rows[0]) if rows else BoardCounts()

    return work


def counts_after(board: str) -> Operation[dict[str, BoardCounts]]:
    """Return the counts of the boards that follow by name, at most COUNTED_AT_ONCE; none after the last."""

    async def work(tx: Transaction) -> dict[str, BoardCounts]:
        return {
            name: BoardCounts(*counts)
            for name, *counts in await tx.rows(_LISTED, after=board, most=COUNTED_AT_ONCE)
        }

    return work


async def add_counts(tx: Transaction, more: Mapping[str, BoardCounts]) -> None:
    """Add to the counts of boards."""
    await tx.run_each(_ADD, [{"board": board, **counts._asdict()} for board, counts in more.items()])


async def forget_counts(tx: Transaction) -> None:
    """Delete the counts of all boards."""
    await tx.run(_FORGET)
