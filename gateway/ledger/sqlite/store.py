"""The ledger on SQLite: one writer thread that commits whatever gathered during its last commit.

`synchronous=FULL` in WAL mode syncs once per commit, so all writes of a group share the sync. Each SQL step
releases the GIL, and taking it back from a busy event loop can cost a switch interval (5 ms). Appends
therefore go in as multi-row statements: a few steps for a whole group, not a few steps each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from gateway.ledger.definition import create_schema
from gateway.ledger.group_commit import commit_group
from gateway.ledger.reads import READ_LIMITS, ReadKind, ReadLimits
from gateway.ledger.schema import SCHEMA_VERSION, is_known
from gateway.ledger.shape import check_sqlite
from gateway.ledger.sqlite.copy_mark import mark_in
from gateway.ledger.sqlite.reads import SqliteReads
from gateway.ledger.sqlite.transaction import drive, execute_in_turn, transaction
from gateway.ledger.sqlite.write_ahead_log import WriteAheadLog
from gateway.ledger.sqlite.writer import SqliteWriter
from gateway.ledger.transaction import Operation
from gateway.ledger.writes import GROUP_LIMIT, GroupedWrites, QueuedWrite, in_time, tell
from policies.errors import LedgerUnavailable

T = TypeVar("T")

MINIMUM_VERSION: Final = (3, 37, 0)
"""First SQLite with STRICT tables (sqlite.org, release 3.37.0)."""

CREATED_S: Final = 30.0
"""The time for which a part that starts waits for another that creates or upgrades the same ledger."""


class SqliteLedger(GroupedWrites):
    """The ledger in one SQLite file.

    Every method fails closed with LedgerUnavailable; nothing is half written.
    """

    def __init__(
        self,
        path: Path,
        *,
        queue_limit: int = 8192,
        busy_timeout_s: float = 2.0,
        group_limit: int = GROUP_LIMIT,
        read_limits: Mapping[ReadKind, ReadLimits] = READ_LIMITS,
    ) -> None:
        self._queue: SimpleQueue[QueuedWrite | None] = SimpleQueue()
        super().__init__(self._queue, queue_limit=queue_limit, group_limit=group_limit)
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._writer: threading.Thread | None = None
        self._reads = SqliteReads(self._connect, read_limits)

    async def open(self) -> None:
        """Create or upgrade the schema if necessary, and start the writer. Raises LedgerUnavailable."""
        if sqlite3.sqlite_version_info < MINIMUM_VERSION:
            raise LedgerUnavailable(
                f"SQLite 3.37 or newer is needed, this Python has {sqlite3.sqlite_version}"
            )
        loop = asyncio.get_running_loop()
        try:
            connection = await asyncio.to_thread(self._create)
        except (sqlite3.Error, OSError) as error:
            raise LedgerUnavailable(f"{self._path}: {error}") from None
        self._writer = threading.Thread(
            target=self._write_groups, args=(connection, loop), name="ledger-write", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        """Commit what is queued, then close."""
        self._is_closing = True
        self._queue.put(None)
        loop = asyncio.get_running_loop()
        if self._writer:
            await loop.run_in_executor(None, self._writer.join)
        await loop.run_in_executor(None, self._reads.close)

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:
        """Return the result of `work` on one consistent snapshot.

        Raises LedgerOverloaded if it cannot be in time.
        """
        if self._is_closing:
            raise LedgerUnavailable("the ledger is closed")
        return await self._reads.read(work, kind)

    async def version(self) -> object:
        """Return a value that equals an earlier one only if nothing was committed in between.

        Raises LedgerUnavailable.
        """
        if self._is_closing:
            raise LedgerUnavailable("the ledger is closed")
        return self._reads.version()

    def _connect(self, busy_timeout_s: float | None = None) -> sqlite3.Connection:
        patience_s = self._busy_timeout_s if busy_timeout_s is None else busy_timeout_s
        connection = sqlite3.connect(
            self._path,
            timeout=patience_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            # SQLite itself does not wait here: of two that begin the log of a new file, one is refused
            execute_in_turn(connection, "PRAGMA journal_mode=WAL", patience_s)
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")  # nothing that is erased stays in the file's pages
        except BaseException:
            connection.close()  # an open file cannot be copied
            raise
        return connection

    def _create(self) -> sqlite3.Connection:
        """Create or upgrade the schema, and return the writer's connection."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect(CREATED_S)
        try:
            self._bring_up_to_date(connection)
            self._reads.watch()
        except BaseException:
            connection.close()  # an open file cannot be copied
            raise
        connection.execute("PRAGMA busy_timeout=0")  # from here on `SqliteWriter` waits
        return connection

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        with transaction(connection):
            version = version_in(connection, self._path)
            if version is None:
                create_schema(connection)
        if version is not None:
            check_sqlite(connection, version, str(self._path))
        if version not in (None, SCHEMA_VERSION):
            _upgrade(connection)
            check_sqlite(connection, SCHEMA_VERSION, str(self._path))

    def _write_groups(self, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop) -> None:
        is_last, writer = False, SqliteWriter(connection, self._busy_timeout_s)
        log = WriteAheadLog(connection, self._path)
        opened = _file_at(self._path)
        with closing(connection):
            while not is_last:
                group, is_last = self._group_from(self._queue.get())
                wanted, outcomes = in_time(group)
                if wanted and _file_at(self._path) != opened:
                    gone = LedgerUnavailable(f"{self._path}: the file was moved, deleted or replaced")
                    outcomes += [(write, None, gone) for write in wanted]
                elif wanted:
                    outcomes += drive(commit_group(writer, wanted))
                with suppress(RuntimeError):  # the loop is closed: nobody waits for the answers any more
                    loop.call_soon_threadsafe(tell, outcomes)
                log.shorten()


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return which file is at a path, None if there is none.

    A connection keeps a file that was deleted, and SQLite commits to it until the process ends.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def version_at(path: Path) -> str | None:
    """Return the version of the schema in a file, None if it is empty. Nothing is created or upgraded.

    Raises LedgerUnavailable.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return version_in(connection, path)
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"{path}: {error}") from None


def version_in(connection: sqlite3.Connection, path: Path) -> str | None:
    """Return the version of the schema, None in an empty file.

    Raises LedgerUnavailable for one that we cannot read, and for a file that was copied to PostgreSQL.
    """
    written = written_version(connection, path)
    if written is None or is_known(written):
        return written
    if copy := mark_in(written):
        raise LedgerUnavailable(copy.sentence(path))
    raise LedgerUnavailable(f"{path}: has schema version {written}, this scoregate reads {SCHEMA_VERSION}")


def written_version(connection: sqlite3.Connection, path: Path) -> str | None:
    """Return what stands in a file as its version, None in an empty one. Raises LedgerUnavailable."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if not tables:
        return None
    if not tables >= {"alembic_version", "events", "submissions"}:
        raise LedgerUnavailable(f"{path}: is a database, but not a ledger of Scoregate")
    version: str
    [version] = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return version


def _upgrade(connection: sqlite3.Connection) -> None:
    from gateway.ledger.migrate import upgrade_sqlite  # noqa: PLC0415 - alembic is slow to load

    upgrade_sqlite(connection)
