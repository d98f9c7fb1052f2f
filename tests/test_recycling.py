"""Databases that tests have one after the other: none shows what another test did in it."""

from __future__ import annotations

from tests.support.ledger import new_submission
from tests.support.postgres import APP, OWNER, PostgresServer
from tests.support.recycling import shape_of
from tests.support.stores import PostgresStore, open_in

CHANGES = (
    "ALTER TABLE players ADD COLUMN country text",
    "ALTER TABLE events DISABLE TRIGGER ALL",
    "DROP INDEX outbox_due",
    "CREATE TABLE mine (x text)",
    f"GRANT DELETE ON events TO {APP}",
    "ANALYZE events",
    "UPDATE alembic_version SET version_num = '9999'",
    f"ALTER ROLE {OWNER} IN DATABASE {{name}} SET synchronous_commit = off",
)


async def test_a_database_that_was_written_to_comes_back_empty(postgres_server: PostgresServer):
    """With its numbers at their beginning: the next test finds what the first one found."""
    seen = []
    for _ in range(2):
        async with postgres_server.database() as name:
            store = PostgresStore(postgres_server, name)
            async with open_in(store) as ledger:
                receipt = await ledger.append(new_submission("run-1"))
            seen.append((name, receipt.is_new, await store.sql("SELECT seq, submission_id FROM events")))
    assert seen[0] == seen[1]


async def test_a_database_that_is_no_longer_as_it_was_made_goes_to_nobody(postgres_server: PostgresServer):
    """Each change of tables, rights, settings or statistics is seen."""
    async with postgres_server.database() as name:
        store = PostgresStore(postgres_server, name)
        async with open_in(store) as ledger:
            await ledger.append(new_submission("run-1"))
        shapes = [await shape_of(postgres_server.url(name))]
        for change in CHANGES:
            await store.sql(change.format(name=name))
            shapes.append(await shape_of(postgres_server.url(name)))
        assert len(shapes) == len(set(shapes))
    async with postgres_server.database() as other:
        assert name != other
