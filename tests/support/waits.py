"""What a transaction waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table

from gateway.ledger.transaction import Cells, Query, Row, Transaction


class Counting:
    """A transaction that counts the statements that wait for the database."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.statements = 0

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        self.statements += 1
        return await self._tx.rows(query, **values)

    async def run(self, query: Query, /, **values: Any) -> int:
        self.statements += 1
        return await self._tx.run(query, **values)

    async def run_each(self, query: Query, values: Sequence[Mapping[str, Any]], /) -> None:
        self.statements += 1
        await self._tx.run_each(query, values)

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        self.statements += 1
        await self._tx.insert(table, rows)

    async def put(self, table: Table, rows: Sequence[Cells]) -> None:
        self.statements += 1
        await self._tx.put(table, rows)
