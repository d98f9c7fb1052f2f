"""Committing a group of writes to SQLite at once: what one of them raises undoes it alone, a fault undoes them all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from gateway.ledger.sqlite.append import append_group
from gateway.ledger.transaction import Query, Row
from gateway.ledger.writes import QueuedAppend, QueuedOperation, QueuedWrite, WriteOutcome
from gateway.runtime.failpoints import Point, reach
from policies.errors import LedgerUnavailable

T = TypeVar("T")

TURN_S: Final = 0.001
"""How often a writer asks for its turn while another process writes. SQLite's own busy handler asks ten times a second
after a while, and against a process that commits without pause that can miss every gap (measured: 1.6 s)."""

_OURS: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
    }
)
"""Result codes that are about what was asked; with any other the database fails (sqlite.org/rescode.html)."""


class SqliteTransaction:
    """A `Transaction` on a plain connection; its coroutines never suspend."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """The rows that the query gives."""
        return self._connection.execute(query.sqlite, query.values(values)).fetchall()

    async def run(self, query: Query, /, **values: Any) -> int:
        """How many rows the statement changed."""
        return self._connection.execute(query.sqlite, query.values(values)).rowcount


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commits what the block did after `begin`, or undoes all of it."""
    connection.execute(begin)
    with _ending(connection):
        yield


@contextmanager
def _ending(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits the open transaction after the block, or undoes all of it."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def is_fault(error: Exception) -> bool:
    """True if the database failed, and not what it was asked to do."""
    if not isinstance(error, sqlite3.Error):
        return False
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's module itself: text that is no UTF-8, or a connection that was closed
        return isinstance(error, sqlite3.OperationalError) or "closed" in str(error)
    return code & 0xFF not in _OURS  # the extended result code carries the primary one in its low byte


def _take_turn(connection: sqlite3.Connection, patience_s: float) -> None:
    """Begins a writing transaction, as soon as no other process has one."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(TURN_S)


def commit_group(
    connection: sqlite3.Connection, group: Sequence[QueuedWrite], patience_s: float
) -> list[WriteOutcome]:
    """Every write of the group with its result, after one commit; all failed alike if the database does.

    A write that cannot be stored fails alone: its group is then written one by one.
    """
    try:
        return _commit_at_once(connection, group, patience_s)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, and the writer must live on
        if is_fault(error):
            unavailable = LedgerUnavailable(f"the ledger refused a commit: {error}")
            return [(write, None, unavailable) for write in group]
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for write in group for outcome in commit_group(connection, [write], patience_s)]


def _commit_at_once(
    connection: sqlite3.Connection, group: Sequence[QueuedWrite], patience_s: float
) -> list[WriteOutcome]:
    _take_turn(connection, patience_s)
    with _ending(connection):
        appended = _append_all(connection, group)
        operated = _operate_all(connection, group)
    if appended:
        reach(Point.AFTER_APPEND)
    return [*appended, *operated]


def _append_all(connection: sqlite3.Connection, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    appends = [write for write in group if isinstance(write, QueuedAppend)]
    if not appends:
        return []
    receipts = append_group(connection, [write.new for write in appends])
    reach(Point.INSIDE_APPEND)
    return [(write, receipt, None) for write, receipt in zip(appends, receipts, strict=True)]


def _operate_all(connection: sqlite3.Connection, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    return [_operate(connection, write) for write in group if isinstance(write, QueuedOperation)]


def _operate(connection: sqlite3.Connection, write: QueuedOperation) -> WriteOutcome:
    connection.execute("SAVEPOINT operation")
    try:
        result = drive(write.work(SqliteTransaction(connection)))
    except Exception as error:
        if is_fault(error):
            raise  # the whole group is refused
        connection.execute("ROLLBACK TO operation")
        connection.execute("RELEASE operation")
        return write, None, error
    connection.execute("RELEASE operation")
    return write, result, None


def drive(work: Awaitable[T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("an operation on the ledger may await nothing but its transaction")
