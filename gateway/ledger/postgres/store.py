"""The ledger on PostgreSQL: one writing connection that commits whatever gathered during its last commit.

Several processes may write: they take turns, transaction by transaction (`ALONE`). Reads have a few
connections of their own, and see one snapshot each. A lost connection is opened again by whoever needs it
next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from typing import Any, Final, TypeVar

import asyncpg
from pydantic import SecretStr

from gateway.ledger.group_commit import commit_group
from gateway.ledger.postgres.transaction import (
    PostgresTransaction,
    describe,
    drive,
    driver_boundary,
    is_fault,
)
from gateway.ledger.postgres.writer import PostgresWriter
from gateway.ledger.reads import READ_LIMITS, ReadKind, ReadLimits, ReadQueues
from gateway.ledger.schema import SCHEMA_VERSION
from gateway.ledger.shape import check_postgres
from gateway.ledger.transaction import Operation
from gateway.ledger.writes import GROUP_LIMIT, GroupedWrites, QueuedWrite, WriteOutcome, in_time, tell
from policies.errors import LedgerUnavailable

T = TypeVar("T")

MINIMUM_VERSION: Final = 14
"""The oldest PostgreSQL that its project still maintained in 2026."""

CONNECT_TIMEOUT_S: Final = 3.0
STATEMENT_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 10.0
"""Longest time that a writer which vanished inside a transaction holds the others up."""
REPLY_TIMEOUT_S: Final = 15.0
"""Longer than the server's own time-outs. A connection that is silent for so long counts as dead."""

MONTHS_AHEAD: Final = 12
PARTITION_EVERY_S: Final = 86_400.0

SYNCHRONOUS: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Makes commits durable. Settings that are stronger than `on` stay."""

_VERSION: Final = "SELECT pg_current_snapshot()::text"
"""The transactions that a reader sees: each that writes has a number."""

_REFUSALS: Final = (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError)
"""Errors of the driver when it cannot connect."""


class PostgresLedger(GroupedWrites):
    """The ledger in a PostgreSQL database.

    Every method fails closed with LedgerUnavailable; nothing is half written.

    The object belongs to the event loop that opened it.
    """

    def __init__(
        self,
        url: SecretStr,
        *,
        queue_limit: int = 8192,
        busy_timeout_s: float = 5.0,
        group_limit: int = GROUP_LIMIT,
        read_limits: Mapping[ReadKind, ReadLimits] = READ_LIMITS,
    ) -> None:
        self._queue: asyncio.Queue[QueuedWrite | None] = asyncio.Queue()
        super().__init__(self._queue, queue_limit=queue_limit, group_limit=group_limit)
        self._url = url
        self._busy_timeout_s = busy_timeout_s
        self._connection: Any = None
        self._partitioned_at = 0.0
        self._pool: Any = None
        self._queues = ReadQueues(read_limits)
        self._readers = sum(limits.at_once for limits in read_limits.values())
        self._writer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the writer if the schema has our version. Raises LedgerUnavailable."""
        try:
            await self._connect_writer()
            await _check_schema(self._connection)
            await self._make_partitions()
            self._pool = await asyncpg.create_pool(
                min_size=0, max_size=self._readers, init=_prepare, reset=_nothing, **self._connect_options()
            )
        except _REFUSALS as error:
            raise LedgerUnavailable(f"PostgreSQL: {describe(error)}") from None
        self._writer = asyncio.create_task(self._write_groups(), name="ledger-write")

    async def close(self) -> None:
        """Commit what is queued, then close."""
        self._is_closing = True
        self._queue.put_nowait(None)
        if self._writer:
            await self._writer
        if self._pool:
            await self._pool.close()
        if self._connection:
            await _close(self._connection)

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:
        """Return the result of `work` on one consistent snapshot.

        Raises LedgerOverloaded if it cannot be in time.
        """
        queue = self._queues[kind]
        await queue.enter()
        try:
            async with asyncio.timeout(queue.limits.limit_s), self._borrowed() as connection:
                return await _read(connection, work)
        except Exception as error:
            if is_fault(error):
                raise LedgerUnavailable(f"PostgreSQL: {describe(error)}") from error
            raise  # a wrong statement is our bug, not the ledger's absence
        finally:
            queue.leave()

    async def version(self) -> object:
        """Return a value that equals an earlier one only if nothing was committed in between.

        Other databases of the server change it too. Raises LedgerUnavailable.
        """
        try:
            async with self._borrowed() as connection:
                with driver_boundary():
                    return await connection.fetchval(_VERSION)
        except Exception as error:
            if is_fault(error):
                raise LedgerUnavailable(f"PostgreSQL: {describe(error)}") from error
            raise

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[Any]:
        with driver_boundary():
            connection = await self._pool.acquire(timeout=REPLY_TIMEOUT_S)
        try:
            yield connection
        finally:
            with driver_boundary():
                await self._pool.release(connection)

    def _connect_options(self) -> dict[str, Any]:
        return {
            "dsn": self._url.get_secret_value(),
            "timeout": CONNECT_TIMEOUT_S,
            "command_timeout": REPLY_TIMEOUT_S,
            "statement_cache_size": 256,
            "max_cached_statement_lifetime": 0,
            "server_settings": {
                "application_name": "scoregate",
                "statement_timeout": _milliseconds(STATEMENT_TIMEOUT_S),
                "lock_timeout": _milliseconds(self._busy_timeout_s),
                "idle_in_transaction_session_timeout": _milliseconds(IDLE_TIMEOUT_S),
            },
        }

    async def _connect_writer(self) -> None:
        self._connection = await asyncpg.connect(**self._connect_options())
        await _prepare(self._connection)
        await self._connection.execute(SYNCHRONOUS)

    async def _make_partitions(self) -> None:
        """Make a partition for each month ahead. If that fails, the default partition takes their events."""
        self._partitioned_at = time.monotonic()
        with suppress(asyncpg.PostgresError), driver_boundary():
            await self._connection.execute(f"SELECT make_event_partitions({MONTHS_AHEAD})")

    async def _write_groups(self) -> None:
        is_last = False
        while not is_last:
            group, is_last = self._group_from(await self._queue.get())
            wanted, outcomes = in_time(group)
            if wanted:
                outcomes += await self._commit(wanted)
            tell(outcomes)

    async def _commit(self, group: list[QueuedWrite]) -> list[WriteOutcome]:
        try:
            if self._connection.is_closed():
                with driver_boundary():
                    await self._connect_writer()
            if time.monotonic() - self._partitioned_at > PARTITION_EVERY_S:
                await self._make_partitions()
        except (*_REFUSALS, LedgerUnavailable) as error:
            self._connection.terminate()
            unavailable = LedgerUnavailable(f"PostgreSQL: {describe(error)}")
            return [(write, None, unavailable) for write in group]
        return await commit_group(PostgresWriter(self._connection), group)


async def _read(connection: Any, work: Operation[T]) -> T:
    tx = PostgresTransaction(connection)
    snapshot = connection.transaction(isolation="repeatable_read", readonly=True)
    with driver_boundary():
        await snapshot.start()
    try:
        result: T = await drive(work(tx), tx)
    except BaseException:
        with driver_boundary():
            await snapshot.rollback()
        raise
    with driver_boundary():
        await snapshot.commit()
    return result


async def _prepare(connection: Any) -> None:
    """Have numerics arrive as whole numbers: in PostgreSQL a sum of bigints is numeric."""
    await connection.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=_number, format="text"
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"


def _number(text: str) -> int | Decimal:
    return int(text) if text.lstrip("-").isdecimal() else Decimal(text)


async def _nothing(_connection: Any) -> None:
    """Skip the pool's reset of a connection: it only read, and has nothing to forget."""


async def _close(connection: Any) -> None:
    with suppress(*_REFUSALS):
        await connection.close(timeout=CONNECT_TIMEOUT_S)


async def _check_schema(connection: Any) -> None:
    """Raise LedgerUnavailable unless the schema has our version.

    Only `scoregate ledger migrate` changes it.
    """
    major = connection.get_server_version().major
    if major < MINIMUM_VERSION:
        raise LedgerUnavailable(f"PostgreSQL {MINIMUM_VERSION} or newer is needed, this is {major}")
    try:
        version = await connection.fetchval("SELECT version_num FROM alembic_version")
    except asyncpg.UndefinedTableError:
        raise LedgerUnavailable(
            "the PostgreSQL database has no ledger: run `scoregate ledger migrate` as its owner"
        ) from None
    except asyncpg.InsufficientPrivilegeError as error:
        raise LedgerUnavailable(f"PostgreSQL: {error}: grant this role scoregate_app") from None
    if version != SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"the PostgreSQL ledger has schema version {version}, this scoregate needs {SCHEMA_VERSION}: "
            "run `scoregate ledger migrate` as its owner"
        )
    await check_postgres(connection, version)
