"""Databases that tests have one after the other: none shows what another test did in it."""

from __future__ import annotations

import pytest

from tests.support.ledger import new_submission
from tests.support.postgres import APP, OWNER, PostgresServer
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


@pytest.mark.parametrize("change", CHANGES)
async def test_a_database_that_is_no_longer_as_it_was_made_goes_to_nobody(
    postgres_server: PostgresServer, change: str
):
    """Other tables, rights, settings or statistics than a new one's."""
    async with postgres_server.database() as name:
        store = PostgresStore(postgres_server, name)
        async with open_in(store) as ledger:
            await ledger.append(new_submission("run-1"))
        await store.sql(change.format(name=name))
    async with postgres_server.database() as other:
        assert name != other
