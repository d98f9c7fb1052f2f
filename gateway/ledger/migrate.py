"""Migrations of a ledger's schema with alembic. Import it where it is needed: alembic is slow to load."""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from typing import Any, Final

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from gateway.ledger.postgres.store import CONNECT_TIMEOUT_S
from gateway.ledger.postgres.writer import ALONE
from gateway.ledger.schema import is_known
from gateway.ledger.shape import check_postgres
from policies.errors import LedgerUnavailable

LOCK_TIMEOUT: Final = "30s"
"""Longest wait of a migration for writers. They wait for it in turn."""


def upgrade_sqlite(connection: sqlite3.Connection, revision: str = "head") -> None:
    """Migrate an open SQLite ledger to a revision, in one transaction. Raises sqlite3.Error."""
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    # The driver begins no transaction before DDL by itself; two processes that start at once must take turns.
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as transaction:
            upgrade(transaction, revision)
    except DBAPIError as error:
        raise error.orig or error from error


async def upgrade_postgres(url: str, revision: str = "head") -> None:
    """Migrate the ledger in a PostgreSQL database to a revision, in one transaction.

    Raises LedgerUnavailable.

    The role needs the right to create in the schema, and the first time the right to create the role
    `scoregate_app`.
    """

    async def connect() -> Any:
        settings = {"lock_timeout": LOCK_TIMEOUT, "application_name": "scoregate migrate"}
        return await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S, server_settings=settings)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(ALONE))
            await _check(connection)
            await connection.run_sync(upgrade, revision)
    except DBAPIError as error:
        raise LedgerUnavailable(f"the ledger was not migrated: {error.orig}") from None
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise LedgerUnavailable(f"the ledger was not migrated: {error or type(error).__name__}") from None
    finally:
        await engine.dispose()


async def _check(connection: AsyncConnection) -> None:
    """Raise LedgerUnavailable if there is a ledger whose tables are not those of its version."""
    if (await connection.execute(text("SELECT to_regclass('alembic_version') IS NULL"))).scalar():
        return
    version = (await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar()
    if version and is_known(version):
        raw = await connection.get_raw_connection()
        await check_postgres(raw.driver_connection, version)


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision inside the connection's transaction."""
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def configuration() -> Config:
    """Return alembic's configuration, which says where the migrations are."""
    config = Config()
    folder = str(files("gateway.ledger") / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
