"""The ledger on SQLite: one writer thread that commits whatever has gathered while it committed before.

`synchronous=FULL` in WAL mode syncs once a commit, so the sync is shared by every write in the group. The GIL is given
up once per SQL step, and taking it back from a busy event loop can cost a switch interval (5 ms): appends therefore go
in as multi-row statements, a few steps for a whole group, not a few steps each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.failpoints import Point, reach
from gateway.ledger.append import append_group
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.schema import SQLITE_TRIGGERS, metadata
from gateway.ledger.transaction import Operation, Query, Row
from policies.errors import LedgerOverloaded, LedgerUnavailable

T = TypeVar("T")

MINIMUM_VERSION: Final = (3, 37, 0)
"""First SQLite with STRICT tables (sqlite.org, release 3.37.0)."""

GROUP_LIMIT: Final = 512
"""Most writes in one commit; bounds the memory and the latency of a group."""

TURN_S: Final = 0.001
"""How often a writer asks for its turn while another process writes. SQLite's own busy handler asks ten times a second
after a while, and against a process that commits without pause that can miss every gap (measured: 1.6 s)."""

_FAULTS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Result codes by which the database fails, whatever it was asked (sqlite.org/rescode.html)."""


@dataclass(slots=True)
class _Append:
    new: NewSubmission
    answer: asyncio.Future[Receipt]


@dataclass(slots=True)
class _Operation:
    work: Operation[Any]
    answer: asyncio.Future[Any]


_Write = _Append | _Operation
_Outcome = tuple[_Write, Any, BaseException | None]


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


class SqliteLedger:
    """The ledger in one SQLite file. Every method fails closed with LedgerUnavailable; nothing is half written."""

    def __init__(self, path: Path, *, queue_limit: int = 8192, busy_timeout_s: float = 2.0) -> None:
        self._path = path
        self._queue_limit = queue_limit
        self._busy_timeout_s = busy_timeout_s
        self._queue: deque[_Write] = deque()
        self._has_work = threading.Condition()
        self._is_closing = False
        self._writer: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ledger-read")
        self._local = threading.local()
        self._read_connections: list[sqlite3.Connection] = []

    async def open(self) -> None:
        """Creates the schema where it is missing and starts the writer. Raises LedgerUnavailable."""
        if sqlite3.sqlite_version_info < MINIMUM_VERSION:
            raise LedgerUnavailable(
                f"SQLite 3.37 or newer is needed, this Python has {sqlite3.sqlite_version}"
            )
        loop = asyncio.get_running_loop()
        try:
            connection = await loop.run_in_executor(self._readers, self._create)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self._path}: {error}") from None
        self._writer = threading.Thread(
            target=self._write_groups, args=(connection, loop), name="ledger-write", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        """Commits what is queued, then closes."""
        with self._has_work:
            self._is_closing = True
            self._has_work.notify()
        loop = asyncio.get_running_loop()
        if self._writer:
            await loop.run_in_executor(None, self._writer.join)
        self._readers.shutdown()
        for connection in self._read_connections:
            connection.close()

    async def append(self, new: NewSubmission) -> Receipt:
        """What stands in the ledger under this submission's id, once it is durable."""
        reach(Point.BEFORE_APPEND)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._enqueue(_Append(new, answer))
        receipt = await answer
        reach(Point.BEFORE_PEND)
        return receipt

    async def write(self, work: Operation[T]) -> T:
        """The result of `work`, once it is durable. What `work` raises undoes it alone, not its group."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(_Operation(work, answer))
        return await answer

    async def read(self, work: Operation[T]) -> T:
        """The result of `work` on one consistent snapshot."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)
        except sqlite3.Error as error:
            if _is_fault(error):
                raise LedgerUnavailable(str(error)) from error
            raise  # a wrong statement is our bug, not the ledger's absence

    def _enqueue(self, write: _Write) -> None:
        with self._has_work:
            if self._is_closing or len(self._queue) >= self._queue_limit:
                raise LedgerOverloaded
            self._queue.append(write)
            self._has_work.notify()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=self._busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _create(self) -> sqlite3.Connection:
        """The writer's connection to a ledger that has its schema."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect()
        with _transaction(connection):
            for statement in schema_statements():
                connection.execute(statement)
        connection.execute("PRAGMA busy_timeout=0")  # from here on `_take_turn` waits
        return connection

    def _read(self, work: Operation[T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
            self._read_connections.append(connection)
        with _transaction(connection, "BEGIN"):
            return _drive(work(SqliteTransaction(connection)))

    def _write_groups(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        with closing(connection):
            while group := self._next_group():
                outcomes = _commit(connection, group, self._busy_timeout_s)
                with suppress(RuntimeError):  # the loop is closed: nobody waits for the answers any more
                    loop.call_soon_threadsafe(_answer, outcomes)

    def _next_group(self) -> list[_Write]:
        with self._has_work:
            while not self._queue and not self._is_closing:
                self._has_work.wait()
            return [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_LIMIT))]


def schema_statements() -> Iterator[str]:
    """The DDL of the whole schema, safe to run again."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table, if_not_exists=True).compile(dialect=dialect.dialect()))
        for index in table.indexes:
            yield str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect.dialect()))
    yield from SQLITE_TRIGGERS


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
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


def _is_fault(error: Exception) -> bool:
    """True if the database failed, and not what it was asked to do."""
    # The extended result code carries the primary one in its low byte.
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _FAULTS


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


def _commit(connection: sqlite3.Connection, group: Sequence[_Write], patience_s: float) -> list[_Outcome]:
    """Every write of the group with its result, after one commit; all failed alike if the database does.

    A write that cannot be stored fails alone: its group is then written one by one.
    """
    try:
        return _commit_at_once(connection, group, patience_s)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, and the writer must live on
        if _is_fault(error):
            unavailable = LedgerUnavailable(f"the ledger refused a commit: {error}")
            return [(write, None, unavailable) for write in group]
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for write in group for outcome in _commit(connection, [write], patience_s)]


def _commit_at_once(
    connection: sqlite3.Connection, group: Sequence[_Write], patience_s: float
) -> list[_Outcome]:
    _take_turn(connection, patience_s)
    with _ending(connection):
        appended = _append_all(connection, group)
        operated = _operate_all(connection, group)
    if appended:
        reach(Point.AFTER_APPEND)
    return [*appended, *operated]


def _append_all(connection: sqlite3.Connection, group: Sequence[_Write]) -> list[_Outcome]:
    appends = [write for write in group if isinstance(write, _Append)]
    if not appends:
        return []
    receipts = append_group(connection, [write.new for write in appends])
    reach(Point.INSIDE_APPEND)
    return [(write, receipt, None) for write, receipt in zip(appends, receipts, strict=True)]


def _operate_all(connection: sqlite3.Connection, group: Sequence[_Write]) -> list[_Outcome]:
    return [_operate(connection, write) for write in group if isinstance(write, _Operation)]


def _operate(connection: sqlite3.Connection, write: _Operation) -> _Outcome:
    connection.execute("SAVEPOINT operation")
    try:
        result = _drive(write.work(SqliteTransaction(connection)))
    except Exception as error:
        if _is_fault(error):
            raise  # the whole group is refused
        connection.execute("ROLLBACK TO operation")
        connection.execute("RELEASE operation")
        return write, None, error
    connection.execute("RELEASE operation")
    return write, result, None


def _drive(work: Awaitable[T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("an operation on the ledger may await nothing but its transaction")


def _answer(outcomes: Sequence[_Outcome]) -> None:
    for write, result, error in outcomes:
        if write.answer.cancelled():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
