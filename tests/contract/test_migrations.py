"""The schema's history leads to the schema, on each database, with and without rows in it."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, StaticPool
from typer.testing import CliRunner

from gateway.ledger import migrate, queries, schema
from gateway.ledger.definition import create_schema
from gateway.ledger.migrate import configuration, upgrade_postgres, upgrade_sqlite
from gateway.ledger.postgres import store as postgres_ledger
from gateway.ledger.schema import SCHEMA_VERSION, is_known, metadata
from gateway.ledger.sqlite import store as sqlite_ledger
from policies.errors import LedgerUnavailable
from scoregate.cli import app
from tests.support.ledger import new_submission
from tests.support.postgres import OWNER, PostgresServer
from tests.support.stores import PostgresStore, SqliteStore, Store, open_in

FIRST = "0001"

DUMP = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name"


def revisions() -> list[str]:
    """Every revision, oldest first."""
    script = ScriptDirectory.from_config(configuration())
    return [each.revision for each in reversed(list(script.walk_revisions()))]


def memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def difference(connection: Connection) -> list[Any]:
    """What would have to change for the database to be as the tables say; partitions are the database's own affair."""

    def is_ours(_object: Any, name: str | None, kind: str, *_: Any) -> bool:
        return not (kind == "table" and name and re.fullmatch(r"events_(\d{6}|default)", name))

    options = {"include_object": is_ours, "compare_type": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def test_versions_are_numbered_one_after_the_other_and_the_last_is_ours():
    """A version says by its number whether it is older or newer."""
    numbered = revisions()

    assert [f"{n:04}" for n in range(1, len(numbered) + 1)] == numbered
    assert SCHEMA_VERSION == numbered[-1]
    known = {each: is_known(each) for each in (FIRST, "0000", "00015", "9999", "a1b2")}
    assert {FIRST: True, "0000": False, "00015": False, "9999": False, "a1b2": False} == known


def test_migrations_lead_to_the_tables_on_sqlite():
    """Nothing is left to be changed, and a migrated file is word for word what a new one is."""
    with closing(memory()) as migrated, closing(memory()) as made:
        upgrade_sqlite(migrated)
        create_schema(made)
        engine = create_engine("sqlite://", creator=lambda: migrated, poolclass=StaticPool)
        with engine.connect() as connection:
            assert [] == difference(connection)
        assert dumped(made) == dumped(migrated)
        assert [(SCHEMA_VERSION,)] == migrated.execute("SELECT version_num FROM alembic_version").fetchall()


def dumped(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return [
        (*names, re.sub(r"\s*([(),])\s*|\s+", r"\1 ", sql))
        for *names, sql in connection.execute(DUMP).fetchall()
    ]


async def test_migrations_lead_to_the_tables_on_postgres(empty: PostgresStore):
    """Nothing is left to be changed."""
    url = empty.server.url(empty.database, OWNER)
    await upgrade_postgres(url)

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url), poolclass=NullPool
    )
    async with engine.connect() as connection:
        assert [] == await connection.run_sync(difference)


async def test_an_sqlite_ledger_is_upgraded_by_whoever_opens_it_with_what_is_in_it(tmp_path: Path):
    """From the first version through each later one; rows are there before and after."""
    path = tmp_path / "ledger.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for revision in revisions():
            upgrade_sqlite(connection, revision)
            connection.execute(
                "INSERT INTO players (player, name, created_at_ms) VALUES (?, 'Ada', 1)", (revision,)
            )
            connection.execute(*an_event(revision, "?"))

    async with open_in(SqliteStore(path)) as ledger:
        assert len(revisions()) == await ledger.read(queries.newest_seq())
        assert (await ledger.append(new_submission("new"))).is_new
    assert sorted(revisions()) == sorted(
        row[0] for row in await SqliteStore(path).sql("SELECT player FROM players")
    )


async def test_a_postgres_ledger_is_upgraded_with_what_is_in_it(empty: PostgresStore):
    """From the first version through each later one; rows are there before and after."""
    for revision in revisions():
        await upgrade_postgres(empty.server.url(empty.database, OWNER), revision)
        statement, values = an_event(revision, "$")
        await empty.server.sql(statement, *values, database=empty.database)

    async with open_in(empty) as ledger:
        assert len(revisions()) == await ledger.read(queries.newest_seq())
        assert (await ledger.append(new_submission("new"))).is_new


def an_event(revision: str, mark: str) -> tuple[str, tuple[Any, ...]]:
    """An event as the first version stores it, numbered by the revision."""
    columns = "seq, at_ms, rules_version, submission_id, board, player, from_state, to_state, actor, reason, policy, detail"
    statement = f"INSERT INTO events ({columns}) VALUES ({', '.join(f'{mark}{n}' for n in range(1, 13))})"
    return statement, (int(revision), 1, 1, *["x"] * 8, "{}")


SECOND = """
from alembic import op
from sqlalchemy import Column, Text

revision, down_revision = "{after}", "{before}"

def upgrade():
    op.add_column("players", Column("country", Text))
    op.execute("UPDATE players SET country = 'of ' || name")
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A version after today's: it gives players a country."""
    after = f"{int(SCHEMA_VERSION) + 1:04}"
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "next.py").write_text(SECOND.format(after=after, before=SCHEMA_VERSION))

    def with_the_next() -> Config:
        config = configuration()
        packaged = Path(config.get_main_option("script_location") or "") / "versions"
        config.set_main_option("version_locations", os.pathsep.join(map(str, (packaged, versions))))
        return config

    monkeypatch.setattr(migrate, "configuration", with_the_next)
    for module in (schema, sqlite_ledger, postgres_ledger):
        monkeypatch.setattr(module, "SCHEMA_VERSION", after)
    return after


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_ledger_of_the_version_before_is_upgraded(
    kind: str, tmp_path: Path, postgres_server: PostgresServer, next_version: str
):
    """An SQLite file by whoever opens it, PostgreSQL by its owner and not before; what was in it is changed along."""
    async with postgres_server.database() as name:
        store: Store = PostgresStore(postgres_server, name)
        if kind == "sqlite":
            store = SqliteStore(tmp_path / "ledger.sqlite3")
            with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
                upgrade_sqlite(connection, SCHEMA_VERSION)
        await store.sql("INSERT INTO players (player, name, created_at_ms) VALUES ('ada', 'Ada', 1)")
        if isinstance(store, PostgresStore):
            with pytest.raises(
                LedgerUnavailable, match=f"version {SCHEMA_VERSION}, this scoregate needs {next_version}"
            ):
                async with open_in(store):
                    pass
            await upgrade_postgres(postgres_server.url(name, OWNER))

        async with open_in(store) as ledger:
            assert (await ledger.append(new_submission("new"))).is_new
        assert [("Ada", "of Ada")] == await store.sql("SELECT name, country FROM players")
        assert [(next_version,)] == await store.sql("SELECT version_num FROM alembic_version")


async def test_a_failed_migration_leaves_nothing_behind(empty: PostgresStore):
    """All or nothing: a database in which a name is taken is as it was."""
    url = empty.server.url(empty.database, OWNER)
    await empty.server.sql("CREATE TABLE submissions (notes text)", database=empty.database)
    with pytest.raises(Exception, match=r"not migrated: .*submissions.* already exists"):
        await upgrade_postgres(url)

    tables = await empty.server.sql(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database=empty.database
    )
    assert [("submissions",)] == tables


async def test_migrating_twice_at_once_is_migrating_once(empty: PostgresStore):
    """Two operators who do it at the same time both find it done."""
    url = empty.server.url(empty.database, OWNER)
    await asyncio.gather(upgrade_postgres(url), upgrade_postgres(url))
    async with open_in(empty) as ledger:
        assert 0 == await ledger.read(queries.newest_seq())


def test_the_command_migrates_either(tmp_path: Path, postgres_server: PostgresServer):
    """`scoregate ledger migrate` makes the schema, says at which version it is, and does no harm when repeated."""
    asyncio.run(postgres_server.sql("CREATE DATABASE by_command OWNER " + OWNER))
    for url in (f"sqlite:///{tmp_path / 'ledger.sqlite3'}", postgres_server.url("by_command", OWNER)):
        for _ in range(2):
            result = CliRunner().invoke(app, ["ledger", "migrate", "--url", url])
            assert (0, f"the ledger is at schema version {SCHEMA_VERSION}\n") == (
                result.exit_code,
                result.output,
            )
