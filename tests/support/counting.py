"""Counting what the ledger has, which the product never does: it would read the whole board."""

from __future__ import annotations

from sqlalchemy import bindparam, func, select

from gateway.ledger.schema import submissions
from gateway.ledger.transaction import Operation, Query, Transaction

_s = submissions.c
_COUNTS = Query(select(_s.state, func.count()).where(_s.board == bindparam("board")).group_by(_s.state))


def counts(board: str) -> Operation[dict[str, int]]:
    """How many submissions of a board are in each state."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {row[0]: row[1] for row in await tx.rows(_COUNTS, board=board)}

    return work
