"""Damage that a bad disk, or somebody with a database's tools, does to rows that nobody may change."""

from __future__ import annotations

from tests.support.stores import SqliteStore, Store


async def tear(store: Store, table: str, change: str) -> None:
    """Changes rows of a table, as by `SET change`, with its triggers out of the way for good."""
    if isinstance(store, SqliteStore):
        triggers = f"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = '{table}'"
        for (name,) in await store.sql(triggers):
            await store.sql(f'DROP TRIGGER "{name}"')
    else:
        await store.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    await store.sql(f"UPDATE {table} SET {change}")
