"""The ledger on SQLite: one writer thread that commits whatever has gathered while it committed before.

`synchronous=FULL` in WAL mode syncs once a commit, so the sync is shared by every write in the group. The GIL is given
up once per SQL step, and taking it back from a busy event loop can cost a switch interval (5 ms): appends therefore go
in as multi-row statements, a few steps for a whole group, not a few steps each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.failpoints import Point, reach
from gateway.ledger.group import (
    Append,
    Outcome,
    SqliteTransaction,
    Work,
    Write,
    commit_group,
    drive,
    is_fault,
    transaction,
)
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.schema import SCHEMA_VERSION, SQLITE_TRIGGERS, metadata
from gateway.ledger.transaction import Operation
from policies.errors import LedgerOverloaded, LedgerUnavailable

T = TypeVar("T")

MINIMUM_VERSION: Final = (3, 37, 0)
"""First SQLite with STRICT tables (sqlite.org, release 3.37.0)."""

GROUP_LIMIT: Final = 512
"""Most writes in one commit; bounds the memory and the latency of a group."""


class SqliteLedger:
    """The ledger in one SQLite file. Every method fails closed with LedgerUnavailable; nothing is half written."""

    def __init__(self, path: Path, *, queue_limit: int = 8192, busy_timeout_s: float = 2.0) -> None:
        self._path = path
        self._queue_limit = queue_limit
        self._busy_timeout_s = busy_timeout_s
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
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
        self._is_closing = True
        self._queue.put(None)
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
        self._enqueue(Append(new, answer))
        receipt = await answer
        reach(Point.BEFORE_PEND)
        return receipt

    async def write(self, work: Operation[T]) -> T:
        """The result of `work`, once it is durable. What `work` raises undoes it alone, not its group."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(Work(work, answer))
        return await answer

    async def read(self, work: Operation[T]) -> T:
        """The result of `work` on one consistent snapshot."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)
        except sqlite3.Error as error:
            if is_fault(error):
                raise LedgerUnavailable(str(error)) from error
            raise  # a wrong statement is our bug, not the ledger's absence

    def _enqueue(self, write: Write) -> None:
        if self._is_closing or self._queue.qsize() >= self._queue_limit:
            raise LedgerOverloaded
        self._queue.put(write)

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
        _check_version(connection, self._path)
        with transaction(connection):
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
        with transaction(connection, "BEGIN"):
            return drive(work(SqliteTransaction(connection)))

    def _write_groups(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        is_last = False
        with closing(connection):
            while not is_last:
                group, is_last = self._next_group()
                outcomes = commit_group(connection, group, self._busy_timeout_s) if group else []
                with suppress(RuntimeError):  # the loop is closed: nobody waits for the answers any more
                    loop.call_soon_threadsafe(_answer, outcomes)

    def _next_group(self) -> tuple[list[Write], bool]:
        """What has gathered, waited for if it is nothing, and whether it is the last: None closes the queue."""
        write, group = self._queue.get(), []
        while write is not None:
            group.append(write)
            if len(group) == GROUP_LIMIT or self._queue.empty():
                return group, False
            write = self._queue.get()
        return group, True


def schema_statements() -> Iterator[str]:
    """The DDL of the whole schema, safe to run again."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table, if_not_exists=True).compile(dialect=dialect.dialect()))
        for index in table.indexes:
            yield str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect.dialect()))
    yield from SQLITE_TRIGGERS


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raises LedgerUnavailable for a ledger that another version made; an empty file is anybody's."""
    [found] = connection.execute("PRAGMA user_version").fetchone()
    if found not in (0, SCHEMA_VERSION):
        raise LedgerUnavailable(f"{path}: has schema version {found}, this scoregate reads {SCHEMA_VERSION}")
    [has_tables] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not found and has_tables:
        raise LedgerUnavailable(f"{path}: is a database, and not a ledger of scoregate")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _answer(outcomes: Sequence[Outcome]) -> None:
    for write, result, error in outcomes:
        if write.answer.cancelled():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
