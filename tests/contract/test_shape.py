"""A ledger whose tables are not those of its version is refused in one sentence, and no released migration changes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from gateway.ledger.migrate import upgrade_postgres, upgrade_sqlite
from policies.errors import LedgerUnavailable
from tests.support import preloaded
from tests.support.postgres import OWNER
from tests.support.stores import PostgresStore, SqliteStore, Store, open_in

RELEASED = {
    "r0001_first.py": "13edaab2833695b5ddd98858a5cb9368bc7ab72ac447a04d15799ca1215ee282",
    "r0002_closed_holes.py": "317725bc24366fbedbfb5d8ac0791040f34b320649ddabb6cb5d9eb4ec4f44ad",
}
"""The SHA-256 of each migration that was released; a release adds the one that it brings."""

CHANGES = {
    "DROP TABLE joins": "the table joins is missing",
    "ALTER TABLE commitments DROP COLUMN asked_at_ms": "the column asked_at_ms of commitments is missing",
    "ALTER TABLE players ADD COLUMN country TEXT": "the column country of players is unknown",
    "DROP INDEX events_of_submission": "the index events_of_submission is missing or of other columns",
}


def test_F24_no_released_migration_was_edited():
    """What brought ledgers to a version brings others there alike, for ever."""
    folder = files("gateway.ledger.migrations.versions")
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in RELEASED}
    assert RELEASED == found


@pytest.mark.parametrize(("change", "said"), CHANGES.items())
async def test_F24_a_ledger_of_other_tables_is_refused_in_a_sentence(store: Store, change: str, said: str):
    """Whatever is missing, or too much; on PostgreSQL `ledger migrate` says the same."""
    async with open_in(store):
        pass
    await store.sql(change)
    with pytest.raises(LedgerUnavailable, match=f"was released with, {said}: restore a backup") as error:
        async with open_in(store):
            pass
    assert "\n" not in str(error.value)
    if isinstance(store, PostgresStore):
        with pytest.raises(LedgerUnavailable, match=said):
            await upgrade_postgres(store.server.url(store.database, OWNER))


async def test_F24_a_trigger_that_is_gone_is_missed(store: Store):
    """History is append-only by triggers: a ledger without one is not opened."""
    async with open_in(store):
        pass
    if isinstance(store, PostgresStore):  # there one can be switched off, too
        await store.sql("ALTER TABLE seals DISABLE TRIGGER seals_no_update")
        with pytest.raises(LedgerUnavailable, match="the trigger seals_no_update is missing"):
            async with open_in(store):
                pass
        await store.sql("ALTER TABLE seals ENABLE TRIGGER seals_no_update")
        await store.sql("ALTER TABLE events_default DISABLE TRIGGER events_no_update")  # in a partition alone
        with pytest.raises(LedgerUnavailable, match="the trigger events_no_update is missing"):
            async with open_in(store):
                pass
        await store.sql("ALTER TABLE events_default ENABLE REPLICA TRIGGER events_no_update")
        with pytest.raises(LedgerUnavailable, match="the trigger events_no_update is missing"):
            async with open_in(store):
                pass
        await store.sql("ALTER TABLE events_default ENABLE TRIGGER events_no_update")
    on = " ON events" if isinstance(store, PostgresStore) else ""
    await store.sql(f"DROP TRIGGER events_no_update{on}")
    with pytest.raises(LedgerUnavailable, match="the trigger events_no_update is missing"):
        async with open_in(store):
            pass


def test_F24_every_part_says_so_of_a_ledger_of_an_edited_first_version(tmp_path: Path):
    """One line that names what is missing, and no traceback."""
    path = tmp_path / "ledger.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade_sqlite(connection, "0001")
        connection.execute("DROP TABLE joins")
    where = {"SCOREGATE_DATA_DIR": str(tmp_path), "SCOREGATE_BIND": "127.0.0.1:0"}
    for command in ("ledger migrate", "key list", "serve", "steward", "worker"):
        done = preloaded.finished(command.split(), {**os.environ, **where})
        said = f"{path}: is not the ledger that schema version 0001 was released with, the table joins is missing"
        lines = done.stderr.splitlines()
        assert (command, 1, True, True) == (
            command,
            len(lines),
            lines[-1].startswith(said),
            done.returncode > 0,
        )


def test_F24_a_new_file_is_a_ledger(tmp_path: Path):
    """What is made now is what is asked for now."""

    async def twice() -> None:
        for _ in range(2):
            async with open_in(SqliteStore(tmp_path / "ledger.sqlite3")):
                pass

    asyncio.run(twice())
