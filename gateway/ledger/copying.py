"""A copy of a ledger on SQLite in an empty PostgreSQL database: row for row, in one transaction.

The file is held exclusively meanwhile, so no part writes to it or starts on it. If the copy fails or is
killed, PostgreSQL undoes all of it, and it can be repeated. The file is marked before PostgreSQL commits, so
that no part begins on either of two ledgers, whatever is killed: one that waited for the file is refused.
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
from gateway.ledger.schema import SCHEMA_VERSION, events, metadata, seals, stewards
from gateway.ledger.seals.audit import AuditReport, audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.shape import check_sqlite
from gateway.ledger.sqlite.copy_mark import mark, mark_in
from gateway.ledger.sqlite.store import written_version
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

    `keys` is called if anything was sealed, and `advance` with each number of rows that were copied. A file
    whose copy was interrupted while it was committed is compared with what is in the database.

    Raises LedgerNotCopied or LedgerUnavailable, and LedgerTampered if the ledger is not what was sealed.
    """
    with _held(source) as file:
        counts = {table.name: _count(file.connection, table) for table in _CARRIED}
        trusted = keys() if counts[seals.name] else PublicKeys()
        async with _connected(url, is_marked=file.is_marked) as target:
            if file.is_marked and await _table_with_rows(target):
                report = await _audit_committed(file.connection, target, counts, trusted)
            else:
                await _require_empty(target)  # before it is migrated: it may be of another deployment
                await upgrade_postgres(url)
                async with _one_transaction(target):
                    await _copy_rows(file.connection, target, advance)
                    if difference := await _difference(file.connection, target, counts):
                        raise LedgerNotCopied(f"{difference}; nothing was copied")
                    report = await audit(_Uncommitted(target), trusted)
                    mark(file.connection, SCHEMA_VERSION, is_whole=False)
        _mark_whole(file.connection, source)
        return LedgerCopy(counts, report)


class _HeldFile(NamedTuple):
    """A ledger that nobody else can open. `is_marked` if a copy of it may have been committed."""

    connection: sqlite3.Connection
    is_marked: bool


@contextmanager
def _held(path: Path) -> Iterator[_HeldFile]:
    """Open the ledger in a file for nobody else. Raises LedgerNotCopied or LedgerUnavailable."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_HELD_S)) as connection:
            # Whoever has a file in WAL mode open, as every part has, holds a lock on it, even at rest.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA synchronous=FULL")  # the mark is on the disk before PostgreSQL commits
            connection.execute("BEGIN EXCLUSIVE")
            is_marked = _require_copyable(connection, path)
            check_sqlite(connection, SCHEMA_VERSION, str(path))
            yield _HeldFile(connection, is_marked)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise LedgerNotCopied(
                f"{path}: another program has the ledger open: stop every part of the deployment, and "
                "start none until the copy is done"
            ) from None
        raise LedgerNotCopied(f"{path}: {error}; nothing was copied") from None


def _require_copyable(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a copy of the file was interrupted.

    Raises LedgerNotCopied for one that was copied, and for one of another version.
    """
    version = written_version(connection, path)
    copy = mark_in(version or "")
    if copy and copy.is_whole:
        raise LedgerNotCopied(copy.sentence(path))
    version = copy.version if copy else version
    if version != SCHEMA_VERSION:
        raise LedgerNotCopied(
            f"{path}: has schema version {version or 'none'}, and {SCHEMA_VERSION} is needed: "
            f"run `scoregate ledger migrate --url sqlite:///{path}` first"
        )
    return copy is not None


def _mark_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Mark the file as one whose copy was committed. Raises LedgerNotCopied."""
    try:
        mark(connection, SCHEMA_VERSION, is_whole=True)
    except sqlite3.Error as error:
        raise LedgerNotCopied(
            f"{path}: {error}; the copy in the database is whole, and the file does not say so yet: "
            "repeat the command"
        ) from None


def _count(connection: sqlite3.Connection, table: Table) -> int:
    [count] = connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - ours
    return int(count)


@asynccontextmanager
async def _connected(url: str, *, is_marked: bool) -> AsyncIterator[Any]:
    """Connect to the database. Raises LedgerNotCopied."""
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
        yield connection
    except _FAULTS as error:
        ending = "repeat the command" if is_marked else "nothing was copied"
        raise LedgerNotCopied(f"PostgreSQL: {describe(error)}; {ending}") from None
    finally:
        connection.terminate()  # a transaction that was not committed is undone


async def _table_with_rows(connection: Any) -> str | None:
    """Return a table of a ledger that has rows in the database, None if there is none."""
    for table in metadata.sorted_tables:
        name = table.name
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name) and (
            await connection.fetchval(f"SELECT EXISTS (SELECT FROM {name})")  # noqa: S608 - ours
        ):
            return name
    return None


async def _require_empty(connection: Any) -> None:
    if name := await _table_with_rows(connection):
        raise LedgerNotCopied(
            f"the database is not empty, {name} has rows: a ledger is copied into an empty database. Nothing "
            "was copied now. Had a copy of this file been interrupted before, the file would be marked, and "
            "this command would finish it"
        )


async def _audit_committed(
    source: sqlite3.Connection, target: Any, counts: Mapping[str, int], trusted: PublicKeys
) -> AuditReport:
    """Audit the copy that an interrupted command has committed: no part has begun on the file since.

    Raises LedgerNotCopied if the database has something else.
    """
    await target.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    if difference := await _difference(source, target, counts):
        raise LedgerNotCopied(
            f"the database is not empty, and not the copy of this file as it is: {difference}. If the parts "
            "have run on that database since, nothing is left to do: the file is not used any more"
        )
    return await audit(_Uncommitted(target), trusted)


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
            f"PostgreSQL: {describe(error)}; whether the copy was committed is unknown: repeat the command, "
            "which finishes it. Until then no part begins on the file"
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


async def _difference(source: sqlite3.Connection, target: Any, counts: Mapping[str, int]) -> str | None:
    """Return what the database has otherwise than the file: rows of a table, or the newest event."""
    for name, count in counts.items():
        copied = await target.fetchval(f"SELECT count(*) FROM {name}")  # noqa: S608 - ours
        if copied != count:
            return f"{name} has {count} rows, and its copy {copied}"
    names = ", ".join(f'"{column.name}"' for column in events.columns)
    newest = f"SELECT {names} FROM events ORDER BY seq DESC LIMIT 1"  # noqa: S608 - ours
    ours, copy = source.execute(newest).fetchone(), await target.fetchrow(newest)
    return None if ours == (copy and tuple(copy)) else "the newest event is another"
