"""A copy of a ledger on SQLite in an empty PostgreSQL database: row for row, in one transaction.

The file is held exclusively meanwhile, so no part writes to it or starts on it. If the copy fails or is
killed, PostgreSQL undoes all of it, and it can be repeated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg
from sqlalchemy import Table

from gateway.ledger.migrate import LOCK_TIMEOUT, upgrade_postgres
from gateway.ledger.postgres.store import CONNECT_TIMEOUT_S, MONTHS_AHEAD, SYNCHRONOUS
from gateway.ledger.postgres.transaction import PostgresTransaction, describe, drive
from gateway.ledger.postgres.writer import ALONE
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import SCHEMA_VERSION, metadata, seals, stewards
from gateway.ledger.seals.audit import AuditReport, audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.shape import check_sqlite
from gateway.ledger.sqlite.store import version_at
from gateway.ledger.transaction import Operation, Row
from policies.errors import ScoregateError

T = TypeVar("T")

_CARRIED: Final = tuple(table for table in metadata.sorted_tables if table is not stewards)
"""Every table but that of the stewards, of whom none runs. Leases keep their epochs, which only ever grow."""

_HELD_S: Final = 2.0
"""The time that a part which is just ending has to close the file."""

_PAGE: Final = 10_000
"""Rows between two reports of the progress."""

_FAULTS: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class LedgerNotCopied(ScoregateError):
    """The ledger was not copied."""


class LedgerCopy(NamedTuple):
    """How many rows of each table were copied, and the audit of the copy."""

    rows: Mapping[str, int]
    audit: AuditReport


class _Uncommitted:
    """Reads what a transaction has written, as its audit needs it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:  # noqa: ARG002 - the protocol's
        tx = PostgresTransaction(self._connection)
        result: T = await drive(work(tx), tx)
        return result


async def copy_ledger(
    source: Path,
    url: str,
    keys: Callable[[], PublicKeys],
    *,
    advance: Callable[[int], None] | None = None,
) -> LedgerCopy:
    """Copy the ledger in a file into the database, which is migrated first, and audit the copy.

    `keys` is called if anything was sealed, and `advance` with each number of rows that were copied.

    Raises LedgerNotCopied or LedgerUnavailable, and LedgerTampered if the ledger is not what was sealed.
    """
    with _held(source) as connection:
        counts = {table.name: _count(connection, table) for table in _CARRIED}
        trusted = keys() if counts[seals.name] else PublicKeys()
        async with _empty_database(url) as target:
            await upgrade_postgres(url)
            async with _one_transaction(target):
                await _copy_rows(connection, target, advance)
                await _compare(target, counts)
                return LedgerCopy(counts, await audit(_Uncommitted(target), trusted))


@contextmanager
def _held(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the ledger in a file for nobody else. Raises LedgerNotCopied or LedgerUnavailable."""
    version = version_at(path)
    if version != SCHEMA_VERSION:
        raise LedgerNotCopied(
            f"{path}: has schema version {version or 'none'}, and {SCHEMA_VERSION} is needed: "
            f"run `scoregate ledger migrate --url sqlite:///{path}` first"
        )
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_HELD_S)) as connection:
        try:
            # Whoever has a file in WAL mode open, as every part has, holds a lock on it, even at rest.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            check_sqlite(connection, version, str(path))
            yield connection
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise LedgerNotCopied(
                    f"{path}: another program has the ledger open: stop every part of the deployment, and "
                    "start none until the copy is done"
                ) from None
            raise LedgerNotCopied(f"{path}: {error}; nothing was copied") from None


def _count(connection: sqlite3.Connection, table: Table) -> int:
    [count] = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - ours
    return int(count)


@asynccontextmanager
async def _empty_database(url: str) -> AsyncIterator[Any]:
    """Connect to a database without rows of a ledger. Raises LedgerNotCopied."""
    settings = {
        "application_name": "scoregate ledger copy",
        "lock_timeout": LOCK_TIMEOUT,
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
    }
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S, server_settings=settings)
    except (*_FAULTS, ValueError) as error:
        raise LedgerNotCopied(f"PostgreSQL: {describe(error)}") from None
    try:
        await connection.execute(SYNCHRONOUS)
        await _require_empty(connection)  # before it is migrated: it may be the ledger of another deployment
        yield connection
    except _FAULTS as error:
        raise LedgerNotCopied(f"PostgreSQL: {describe(error)}; nothing was copied") from None
    finally:
        connection.terminate()  # a transaction that was not committed is undone


async def _require_empty(connection: Any) -> None:
    for table in metadata.sorted_tables:
        name = table.name
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name) and (
            await connection.fetchval(f"SELECT EXISTS (SELECT FROM {name})")  # noqa: S608 - ours
        ):
            raise LedgerNotCopied(
                f"the database is not empty, {name} has rows: a ledger is copied into an empty database"
            )


@asynccontextmanager
async def _one_transaction(connection: Any) -> AsyncIterator[None]:
    """Commit what the block does in the writers' turn, if the database is still empty then."""
    await connection.execute(f"BEGIN; {ALONE}")
    await _require_empty(connection)
    yield
    try:
        await connection.execute("COMMIT")
    except _FAULTS as error:
        raise LedgerNotCopied(
            f"PostgreSQL: {describe(error)}; whether the copy was committed is unknown: repeat the command. "
            "If the database is not empty then, the copy in it is whole"
        ) from None


async def _copy_rows(source: sqlite3.Connection, target: Any, advance: Callable[[int], None] | None) -> None:
    """Stream every table, a few rows in memory at a time, and count its values for the planner."""
    await target.execute(f"SELECT make_event_partitions({MONTHS_AHEAD})")
    copied = 0

    def rows_of(columns: list[str], table: Table) -> Iterator[Row]:
        nonlocal copied
        names = ", ".join(f'"{name}"' for name in columns)
        for row in source.execute(f"SELECT {names} FROM {table.name}"):  # noqa: S608 - ours
            yield row
            copied += 1
            if advance and copied % _PAGE == 0:
                advance(_PAGE)

    for table in _CARRIED:
        columns = table.columns.keys()
        await target.copy_records_to_table(table.name, records=rows_of(columns, table), columns=columns)
        await target.execute(f"ANALYZE {table.name}")


async def _compare(target: Any, counts: Mapping[str, int]) -> None:
    """Raise LedgerNotCopied unless every table has as many rows as in the file."""
    for name, count in counts.items():
        copied = await target.fetchval(f"SELECT count(*) FROM {name}")  # noqa: S608 - ours
        if copied != count:
            raise LedgerNotCopied(f"{name} has {count} rows, and its copy {copied}; nothing was copied")
