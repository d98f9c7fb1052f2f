"""The connection that writes groups to SQLite, a few statements for a whole group."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import orjson
from sqlalchemy import Table

from gateway.ledger.sqlite.transaction import SqliteTransaction, drive, ending, execute_in_turn, is_fault
from gateway.ledger.submissions.append import NEXT_SEQ, RECEIPTS
from gateway.ledger.transaction import Cells, Operation, Row
from policies.errors import LedgerUnavailable

T = TypeVar("T")


class SqliteWriter:
    """A `WritingConnection` whose coroutines never suspend.

    A transaction waits up to `patience_s` for its turn.
    """

    def __init__(self, connection: sqlite3.Connection, patience_s: float) -> None:
        self._connection = connection
        self._patience_s = patience_s

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what the block does, or undo all of it."""
        execute_in_turn(self._connection, "BEGIN IMMEDIATE", self._patience_s)
        with ending(self._connection):
            yield

    async def execute(self, *statements: str) -> None:
        """Execute statements that bind nothing, in order."""
        for statement in statements:
            self._connection.execute(statement)

    async def receipts(self, submission_ids: Sequence[str]) -> Sequence[Row]:
        """Return the columns of a receipt for each of these submissions that is stored."""
        listed = f"{RECEIPTS} IN (SELECT value FROM json_each(?))"  # noqa: S608 - ours
        return self._connection.execute(listed, (orjson.dumps(submission_ids).decode(),)).fetchall()

    async def next_seq(self) -> int:
        """Return the sequence number of the next event."""
        [seq] = self._connection.execute(NEXT_SEQ).fetchone()
        return int(seq)

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows, and skip recordings that are stored already."""
        await SqliteTransaction(self._connection).insert(table, rows)

    async def perform(self, operation: Operation[T]) -> T:
        """Return the result of an operation.

        Raises RuntimeError if it awaits anything but its transaction.
        """
        return drive(operation(SqliteTransaction(self._connection)))

    def is_fault(self, error: Exception) -> bool:
        """Return whether the database failed, and not the write that it was given."""
        return is_fault(error)

    def refusal(self, error: Exception) -> LedgerUnavailable:
        """Return what to tell a group after a fault."""
        return LedgerUnavailable(f"the ledger refused a commit: {error}")
