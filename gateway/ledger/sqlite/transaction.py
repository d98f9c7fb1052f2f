"""A transaction on SQLite, and which of its errors are faults of the database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar

from sqlalchemy import Table

from gateway.ledger.schema import recordings
from gateway.ledger.transaction import Cells, Query, Row, in_place_of

T = TypeVar("T")

_OUR_ERRORS: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
    }
)
"""Result codes that blame the statement; with any other the database failed (sqlite.org/rescode.html)."""

CHUNKS: Final = (64, 16, 4, 1)
"""Rows per statement. Few sizes, so that each statement is prepared once and found in the cache."""

TURN_S: Final = 0.001
"""Pause between two attempts to begin while another process writes.

SQLite's own busy handler tries ten times a second after a while. Against a process that commits without
pause, it can miss every gap (measured: 1.6 s).
"""


class SqliteTransaction:
    """A `Transaction` on a plain connection; its coroutines never suspend."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """Return the rows of the query."""
        return self._connection.execute(query.sqlite, query.values(values)).fetchall()

    async def run(self, query: Query, /, **values: Any) -> int:
        """Run the statement, and return how many rows it changed."""
        return self._connection.execute(query.sqlite, query.values(values)).rowcount

    async def run_each(self, query: Query, values: Sequence[Mapping[str, Any]], /) -> None:
        """Run the statement once for each of these values."""
        self._connection.executemany(query.sqlite, [query.values(each) for each in values])

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows, and skip recordings that are stored already."""
        for chunk in _chunks(rows):
            self._connection.execute(_insert_statement(table, len(chunk)), tuple(chain(*chunk)))

    async def put(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows, or store them in place of those with the same keys."""
        for chunk in _chunks(rows):
            self._connection.execute(_put_statement(table, len(chunk)), tuple(chain(*chunk)))


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit what the block does after `begin`, or undo all of it."""
    connection.execute(begin)
    with ending(connection):
        yield


@contextmanager
def ending(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit the open transaction after the block, or undo all of it."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def execute_in_turn(connection: sqlite3.Connection, statement: str, patience_s: float) -> None:
    """Execute a statement that must wait until no other connection writes, for up to `patience_s`.

    Raises sqlite3.Error.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(TURN_S)


def is_fault(error: Exception) -> bool:
    """Return whether the database failed, and not the statement that it was given."""
    if not isinstance(error, sqlite3.Error):
        return False
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's module itself: text that is no UTF-8, or a connection that was closed
        return isinstance(error, sqlite3.OperationalError) or "closed" in str(error)
    return code & 0xFF not in _OUR_ERRORS  # the extended result code carries the primary one in its low byte


def drive(work: Awaitable[T]) -> T:
    """Return the result of a coroutine that never suspends. Raises RuntimeError if it does."""
    try:
        work.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("an operation on the ledger may await nothing but its transaction")


def _chunks(rows: Sequence[Cells]) -> Iterator[Sequence[Cells]]:
    at = 0
    for size in CHUNKS:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


@lru_cache(maxsize=64)
def _insert_statement(table: Table, rows: int) -> str:
    # OR IGNORE is for recordings alone: equal bytes are stored once. Other ids were looked up just before.
    # Columns are named because a migrated file has later ones at the end.
    verb = "INSERT OR IGNORE" if table is recordings else "INSERT"
    names = [f'"{column.name}"' for column in table.columns]
    row = f"({', '.join('?' * len(names))})"
    return f"{verb} INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * rows)}"


@lru_cache(maxsize=64)
def _put_statement(table: Table, rows: int) -> str:
    return f"{_insert_statement(table, rows)} {in_place_of(table)}"
