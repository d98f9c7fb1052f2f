"""Reads of an SQLite ledger: threads for each kind of read, and an end to a read that takes too long."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from gateway.ledger.reads import ReadKind, ReadLimits, ReadQueues
from gateway.ledger.sqlite.transaction import SqliteTransaction, drive, is_fault, transaction
from gateway.ledger.transaction import Operation
from policies.errors import LedgerUnavailable

T = TypeVar("T")

STEPS: Final = 10_000
"""Instructions of SQLite's machine between two checks of the clock: about a millisecond."""


class _Watch:
    """The end of a read that takes too long, or for which nobody waits any more."""

    def __init__(self, limit_s: float) -> None:
        self._until_s = time.monotonic() + limit_s
        self.is_abandoned = False

    def is_over(self) -> bool:
        return self.is_abandoned or time.monotonic() > self._until_s


class SqliteReads:
    """The connections that read a file, one for each thread. `connect` opens one."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], read_limits: Mapping[ReadKind, ReadLimits]
    ) -> None:
        self._connect = connect
        self._queues = ReadQueues(read_limits)
        self._threads = {
            kind: ThreadPoolExecutor(limits.at_once, thread_name_prefix=f"ledger-read-{kind.value}")
            for kind, limits in read_limits.items()
        }
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._watching: sqlite3.Connection | None = None

    async def read(self, work: Operation[T], kind: ReadKind) -> T:
        """Return the result of `work` on one consistent snapshot.

        Raises LedgerUnavailable and LedgerOverloaded.
        """
        queue, loop = self._queues[kind], asyncio.get_running_loop()
        await queue.enter()
        watch = _Watch(queue.limits.limit_s)
        running = self._threads[kind].submit(self._read, work, watch)

        def leave(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop is closed, and its queue with it
                loop.call_soon_threadsafe(queue.leave)

        running.add_done_callback(leave)  # a place is free when the thread is, not when its caller has left
        try:
            return await asyncio.wrap_future(running)
        except sqlite3.Error as error:
            if is_fault(error):
                raise LedgerUnavailable(str(error)) from error
            raise  # a wrong statement is our bug, not the ledger's absence
        finally:
            watch.is_abandoned = True

    def watch(self) -> None:
        """Open the connection that tells versions. Raises sqlite3.Error."""
        watching = self._opened()
        watching.execute("PRAGMA busy_timeout=0")  # from here on the caller may be an event loop
        self._watching = watching

    def version(self) -> int:
        """Return SQLite's count of other connections' commits. Raises LedgerUnavailable.

        It asks on the caller's thread: it takes some microseconds in memory, and a hop to a thread a hundred.
        """
        if self._watching is None:
            raise LedgerUnavailable("the ledger is not open")
        try:
            [version] = self._watching.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise LedgerUnavailable(str(error)) from error
        return int(version)

    def close(self) -> None:
        """Wait for reads that are under way, then close."""
        for threads in self._threads.values():
            threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _read(self, work: Operation[T], watch: _Watch) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._opened()
        connection.set_progress_handler(watch.is_over, STEPS)
        with transaction(connection, "BEGIN"):
            return drive(work(SqliteTransaction(connection)))

    def _opened(self) -> sqlite3.Connection:
        connection = self._connect()
        self._connections.append(connection)
        connection.execute("PRAGMA query_only=ON")
        return connection
