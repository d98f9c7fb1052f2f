"""The databases that can carry a ledger, for tests that hold on each of them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from gateway.ledger.ledger import Ledger
from gateway.ledger.postgres.store import PostgresLedger
from gateway.ledger.postgres.writer import ALONE
from gateway.ledger.sqlite.store import SqliteLedger
from tests.support.postgres import APP, PostgresServer
from tests.support.thorough import thoroughly

PATIENCE_S = 30

on_both_ledgers = pytest.mark.parametrize("database_server", ["sqlite", "postgres"], indirect=True)
"""Has a test run on each database, where the fixtures would give it SQLite alone."""

on_both_if_thorough = pytest.mark.parametrize(
    "database_server", ["sqlite", *thoroughly("postgres")], indirect=True
)
"""Has an ordinary run do with SQLite, where the databases differ in nothing that the test is about."""


@dataclass(frozen=True)
class Intruder:
    """Another program that can take the writers' turn and give it back, at once and from any thread."""

    take: Callable[[], object]
    give_back: Callable[[], object]


class SqliteStore:
    """A database that carries a ledger, seen from outside: here an SQLite file."""

    refusals = (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError)
    errors = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def ledger(self, **settings: Any) -> Ledger:
        return SqliteLedger(self.path, **settings)

    async def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """What a program gets that may do what it likes."""
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            return connection.execute(statement).fetchall()

    async def columns(self, table: str) -> set[str]:
        return {row[1] for row in await self.sql(f"PRAGMA table_info({table})")}

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        """Another program writes, and does not come to an end."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as intruder:
            intruder.execute("BEGIN IMMEDIATE")
            yield
            intruder.execute("ROLLBACK")

    @contextmanager
    def intruder(self) -> Iterator[Intruder]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            yield Intruder(
                lambda: connection.execute("BEGIN IMMEDIATE"), lambda: connection.execute("ROLLBACK")
            )


class PostgresStore:
    """The same on PostgreSQL: the ledger has the application's role, the test is a superuser."""

    refusals = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)
    errors = (asyncpg.PostgresError,)

    def __init__(self, server: PostgresServer, database: str) -> None:
        self.server = server
        self.database = database
        self.url = server.url(database, APP)

    def ledger(self, **settings: Any) -> Ledger:
        return PostgresLedger(SecretStr(self.url), **settings)

    async def sql(self, statement: str, role: str = "postgres") -> list[tuple[Any, ...]]:
        return await self.server.sql(statement, database=self.database, role=role)

    async def columns(self, table: str) -> set[str]:
        found = await self.sql(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0"
        )
        return {row[0] for row in found}

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        intruder = await asyncpg.connect(self.server.url(self.database))
        try:
            async with intruder.transaction():
                await intruder.execute(ALONE)
                yield
        finally:
            await intruder.close()

    @contextmanager
    def intruder(self) -> Iterator[Intruder]:
        with _loop_apart() as run:
            connection = run(asyncpg.connect(self.server.url(self.database)))
            try:
                yield Intruder(
                    lambda: run(connection.execute(f"BEGIN; {ALONE}")),
                    lambda: run(connection.execute("ROLLBACK")),
                )
            finally:
                run(connection.close())


@contextmanager
def _loop_apart() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """What waits for a coroutine on an event loop of its own, also where another loop is running."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


Store = SqliteStore | PostgresStore


@asynccontextmanager
async def open_in(store: Store, **settings: Any) -> AsyncIterator[Ledger]:
    """A ledger of a store, open."""
    ledger = store.ledger(**settings)
    try:
        await ledger.open()
        yield ledger
    finally:
        await ledger.close()
