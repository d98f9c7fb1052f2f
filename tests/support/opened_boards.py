"""Rows of boards of families, as plain as a test needs them."""

from __future__ import annotations

from sqlalchemy import insert

from gateway.ledger.schema import boards
from gateway.ledger.transaction import Operation, Query, Transaction


def opening(board: str, asset: bytes, state: str = "open") -> Operation[None]:
    """The operation that adds the row of a board with an asset."""
    numbers = dict.fromkeys(("lane", "opened_at_ms", "opened_seq", "version", "seq", "plays"), 1)
    texts = {"board": board, "family": "track", "title": "T", "metadata": "{}", "opened_by": "ops"}
    row = {**numbers, **texts, "parameters": b"", "asset": asset, "state": state}

    async def work(tx: Transaction) -> None:
        await tx.run(Query(insert(boards)), **dict.fromkeys(map(str, boards.c.keys())) | row)

    return work
