"""The connection that writes groups to PostgreSQL, one statement for each table of a group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Table

from gateway.ledger.postgres.transaction import (
    PostgresTransaction,
    describe,
    drive,
    driver_boundary,
    is_fault,
)
from gateway.ledger.submissions.append import NEXT_SEQ, RECEIPTS
from gateway.ledger.transaction import Cells, Operation, Row
from policies.errors import LedgerUnavailable

T = TypeVar("T")

WRITERS_LOCK: Final = int.from_bytes(b"scoregat")
"""The key of the advisory lock of whatever writes to a ledger or changes its schema."""

ALONE: Final = f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})"
"""Makes the writing transactions of all processes follow one another, each with the next sequence numbers.

PostgreSQL releases the locks of a transaction after others see its rows. Whoever has the lock therefore sees
every event there is, and `max(seq) + 1` has no gaps and no twins, and is the order of the commits.
"""


class PostgresWriter:
    """A `WritingConnection` of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what the block does under the writers' lock, or undo all of it."""
        with driver_boundary():
            await self._connection.execute(f"BEGIN; {ALONE}")
        try:
            yield
        except BaseException as error:
            if not is_fault(error):
                await self.execute("ROLLBACK")
            raise
        await self._commit()

    async def execute(self, *statements: str) -> None:
        """Execute statements that bind nothing, in order and in one round trip."""
        with driver_boundary():
            await self._connection.execute("; ".join(statements))

    async def receipts(self, submission_ids: Sequence[str]) -> Sequence[Row]:
        """Return the columns of a receipt for each of these submissions that is stored."""
        with driver_boundary():
            rows = await self._connection.fetch(f"{RECEIPTS} = ANY($1::text[])", submission_ids)
        return [tuple(row) for row in rows]

    async def next_seq(self) -> int:
        """Return the sequence number of the next event."""
        with driver_boundary():
            return int(await self._connection.fetchval(NEXT_SEQ))

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows, and skip recordings that are stored already."""
        await PostgresTransaction(self._connection).insert(table, rows)

    async def perform(self, operation: Operation[T]) -> T:
        """Return the result of an operation.

        Raises RuntimeError if it awaits anything but its transaction.
        """
        tx = PostgresTransaction(self._connection)
        result: T = await drive(operation(tx), tx)
        return result

    def is_fault(self, error: Exception) -> bool:
        """Return whether the database failed, and not the write that it was given."""
        return is_fault(error)

    def refusal(self, error: Exception) -> LedgerUnavailable:
        """Close the connection, whose state nobody knows, and return what to tell a group after a fault."""
        self._connection.terminate()
        return LedgerUnavailable(f"the ledger refused a commit: {describe(error)}")

    async def _commit(self) -> None:
        """Commit. What is not known to be durable is never said to be: the same id, sent again, finds out."""
        try:
            status = await self._connection.execute("COMMIT")
        except Exception as error:
            raise LedgerUnavailable(f"the outcome of a commit is unknown: {describe(error)}") from error
        if status != "COMMIT":  # a transaction that had failed is rolled back without an error
            raise LedgerUnavailable(f"a commit was answered with {status}")
