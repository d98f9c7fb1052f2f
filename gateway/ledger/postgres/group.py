"""Committing a group of writes to PostgreSQL at once: what one of them raises undoes it alone, a fault undoes them all."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import asyncpg

from gateway.ledger.postgres.append import append_group
from gateway.ledger.transaction import Query, Row
from gateway.ledger.writes import QueuedAppend, QueuedOperation, QueuedWrite, WriteOutcome
from gateway.runtime.boundary import boundary
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.unexpected import FaultPlace
from policies.errors import LedgerUnavailable

T = TypeVar("T")

WRITERS_LOCK: Final = int.from_bytes(b"scoregat")
"""The key of the advisory lock that everything takes that writes to a ledger, or changes its schema."""

ALONE: Final = f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})"
"""Makes the writing transactions of all processes follow one another, each with the next sequence numbers.

PostgreSQL gives a transaction's locks back after its rows can be seen. Who has the lock therefore sees every event
there is, and `max(seq) + 1` has no gaps and no twins, and is the order of the commits.
"""

_FAULT_CLASSES: Final = frozenset({"08", "40", "53", "57", "58", "XX"})
"""Connection, rollback, resources, intervention, system, internal: the database failed (Appendix A of its manual)."""

_FAULTS: Final = frozenset({"25006", "25P03", "25P04", "55P03"})
"""Read-only, idle or too long in a transaction, lock not available."""


class PostgresTransaction:
    """A `Transaction` on a connection of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.is_asking = False

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        """The rows that the query gives."""
        text = query.postgres[0]
        return [tuple(row) for row in await self._ask(self._connection.fetch(text, *query.ordered(values)))]

    async def run(self, query: Query, /, **values: Any) -> int:
        """How many rows the statement changed."""
        text = query.postgres[0]
        status = await self._ask(self._connection.execute(text, *query.ordered(values)))
        count = status.rpartition(" ")[2]  # "UPDATE 3", "INSERT 0 1"
        return int(count) if count.isdecimal() else -1

    async def _ask(self, question: Awaitable[Any]) -> Any:
        self.is_asking = True
        try:
            with asking():
                return await question
        finally:
            self.is_asking = False


def _unavailable(said: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"PostgreSQL: {said}")


def asking() -> AbstractContextManager[None]:
    """Has whatever the driver raises say so as LedgerUnavailable, but what PostgreSQL answers, or the driver to us."""
    return boundary(FaultPlace.LEDGER, _unavailable, answers=(asyncpg.PostgresError, asyncpg.InterfaceError))


@types.coroutine
def drive(work: Any, tx: PostgresTransaction) -> Generator[Any, Any, Any]:
    """The result of an operation's coroutine. Raises RuntimeError if it awaits anything but its transaction."""
    proceed = work.send
    given: Any = None
    while True:
        try:
            awaited = proceed(given)
        except StopIteration as stop:
            return stop.value
        if not tx.is_asking:
            work.close()
            raise RuntimeError("an operation on the ledger may await nothing but its transaction")
        try:
            given, proceed = (yield awaited), work.send
        except BaseException as error:  # noqa: BLE001 - a cancellation is the operation's to hear of
            given, proceed = error, work.throw


def is_fault(error: BaseException) -> bool:
    """True if the database failed, or the way to it, and not what it was asked to do."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state[:2] in _FAULT_CLASSES or state in _FAULTS
    ways = OSError | TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError | LedgerUnavailable
    return isinstance(error, ways)


def described(error: BaseException) -> str:
    """What went wrong, in a line that holds no secret: asyncpg names hosts, users and databases, never a password."""
    is_ours = isinstance(error, OSError | asyncpg.PostgresError | asyncpg.InterfaceError | LedgerUnavailable)
    return (str(error) if is_ours else "") or type(error).__name__


async def commit_group(connection: Any, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    """Every write of the group with its result, after one commit; all failed alike if the database does.

    A write that cannot be stored fails alone: its group is then written one by one. After a fault the connection is
    closed, since nobody knows what state it is in.
    """
    try:
        return await _commit_at_once(connection, group)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, and the writer must live on
        if is_fault(error):
            connection.terminate()
            unavailable = LedgerUnavailable(f"the ledger refused a commit: {described(error)}")
            return [(write, None, unavailable) for write in group]
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for write in group for outcome in await commit_group(connection, [write])]


async def _commit_at_once(connection: Any, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    with asking():
        await connection.execute(f"BEGIN; {ALONE}")
    try:
        appended = await _append_all(connection, group)
        operated = [
            await _operate(connection, write) for write in group if isinstance(write, QueuedOperation)
        ]
    except BaseException as error:
        if not is_fault(error):
            with asking():
                await connection.execute("ROLLBACK")
        raise
    await _commit(connection)
    if appended:
        reach(Point.AFTER_APPEND)
    return [*appended, *operated]


async def _commit(connection: Any) -> None:
    """Commits. What is not known to be durable is never said to be: the same id, sent again, finds out."""
    try:
        status = await connection.execute("COMMIT")
    except Exception as error:
        raise LedgerUnavailable(f"what became of a commit is unknown: {described(error)}") from error
    if status != "COMMIT":  # a transaction that had failed is rolled back without an error
        raise LedgerUnavailable(f"a commit was answered with {status}")


async def _append_all(connection: Any, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    appends = [write for write in group if isinstance(write, QueuedAppend)]
    if not appends:
        return []
    with asking():
        receipts = await append_group(connection, [write.new for write in appends])
    reach(Point.INSIDE_APPEND)
    return [(write, receipt, None) for write, receipt in zip(appends, receipts, strict=True)]


async def _operate(connection: Any, write: QueuedOperation) -> WriteOutcome:
    with asking():
        await connection.execute("SAVEPOINT operation")
    tx = PostgresTransaction(connection)
    try:
        result = await drive(write.work(tx), tx)
    except Exception as error:
        if is_fault(error):
            raise  # the whole group is refused
        with asking():
            await connection.execute("ROLLBACK TO operation; RELEASE operation")
        return write, None, error
    with asking():
        await connection.execute("RELEASE operation")
    return write, result, None
