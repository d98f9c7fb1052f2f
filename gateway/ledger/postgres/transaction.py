"""A transaction on PostgreSQL, and which of its errors are faults of the database."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final

import asyncpg
from sqlalchemy import BigInteger, LargeBinary, Table

from gateway.ledger.schema import recordings
from gateway.ledger.transaction import Cells, Query, Row, in_place_of
from gateway.runtime.boundary import boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import LedgerUnavailable

_FAULT_CLASSES: Final = frozenset({"08", "40", "53", "57", "58", "XX"})
"""Connection, rollback, resources, intervention, system, internal: the database failed (Appendix A of its
manual).
"""

_FAULTS: Final = frozenset({"25006", "25P03", "25P04", "55P03"})
"""Read-only, idle or too long in a transaction, lock not available."""


class PostgresTransaction:
    """A `Transaction` on a connection of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.is_waiting = False
        """True while a statement is under way: the operation then awaits its transaction."""

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """Return the rows of the query."""
        text = query.postgres[0]
        rows = await self._wait_for(self._connection.fetch(text, *query.ordered(values)))
        return [tuple(row) for row in rows]

    async def run(self, query: Query, /, **values: Any) -> int:
        """Run the statement, and return how many rows it changed."""
        text = query.postgres[0]
        status = await self._wait_for(self._connection.execute(text, *query.ordered(values)))
        count = status.rpartition(" ")[2]  # "UPDATE 3", "INSERT 0 1"
        return int(count) if count.isdecimal() else -1

    async def run_each(self, query: Query, values: Sequence[Mapping[str, Any]], /) -> None:
        """Run the statement once for each of these values, without waiting in between."""
        if values:
            rows = [query.ordered(each) for each in values]
            await self._wait_for(self._connection.executemany(query.postgres[0], rows))

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows in one statement, and skip recordings that are stored already."""
        if rows:
            columns = map(list, zip(*rows, strict=True))
            await self._wait_for(self._connection.execute(_insert_statement(table), *columns))

    async def put(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows in one statement, or store them in place of those with the same keys."""
        if rows:
            columns = map(list, zip(*rows, strict=True))
            text = f"{_insert_statement(table)} {in_place_of(table)}"
            await self._wait_for(self._connection.execute(text, *columns))

    async def _wait_for(self, reply: Awaitable[Any]) -> Any:
        self.is_waiting = True
        try:
            with driver_boundary():
                return await reply
        finally:
            self.is_waiting = False


def driver_boundary() -> AbstractContextManager[None]:
    """Turn what the driver raises into LedgerUnavailable.

    Errors that PostgreSQL or asyncpg answers with pass.
    """
    return boundary(FaultPlace.LEDGER, _unavailable, answers=(asyncpg.PostgresError, asyncpg.InterfaceError))


def _unavailable(reason: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"PostgreSQL: {reason}")


@types.coroutine
def drive(work: Any, tx: PostgresTransaction) -> Generator[Any, Any, Any]:
    """Return the result of an operation's coroutine.

    Raises RuntimeError if it awaits anything but its transaction.

    SQLite could not run such an operation: a thread drives it there, without an event loop.
    """
    proceed = work.send
    value: Any = None
    while True:
        try:
            awaited = proceed(value)
        except StopIteration as stop:
            return stop.value
        if not tx.is_waiting:
            work.close()
            raise RuntimeError("an operation on the ledger may await nothing but its transaction")
        try:
            value, proceed = (yield awaited), work.send
        except BaseException as error:  # noqa: BLE001 - a cancellation is the operation's to hear of
            value, proceed = error, work.throw


def is_fault(error: BaseException) -> bool:
    """Return whether the database or the way to it failed, and not the statement that it was given."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state[:2] in _FAULT_CLASSES or state in _FAULTS
    ways = OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError | LedgerUnavailable
    return isinstance(error, ways)


def describe(error: BaseException) -> str:
    """Return what went wrong in one line. asyncpg names hosts, users and databases, but never a password."""
    has_text = isinstance(error, OSError | asyncpg.PostgresError | asyncpg.InterfaceError | LedgerUnavailable)
    return (str(error) if has_text else "") or type(error).__name__


@lru_cache(maxsize=16)
def _insert_statement(table: Table) -> str:
    # Equal recordings are stored once. Ids of the others were looked up just before, under the writers' lock.
    columns = table.columns.values()
    names = ", ".join(f'"{column.name}"' for column in columns)
    arrays = ", ".join(f"${n}::{_array_of(column.type)}" for n, column in enumerate(columns, start=1))
    ignoring = " ON CONFLICT DO NOTHING" if table is recordings else ""
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays}){ignoring}"  # noqa: S608 - ours


def _array_of(kind: object) -> str:
    if isinstance(kind, BigInteger):
        return "bigint[]"
    return "bytea[]" if isinstance(kind, LargeBinary) else "text[]"
