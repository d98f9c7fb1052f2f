"""PostgreSQL databases that tests reuse: making one costs ten times as much as emptying one.

A database goes to the next test only if it is as it was when made: the same tables, triggers, rights and
settings, no connections, and no rows.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

_OTHERS: Final = (
    "SELECT bool_and(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

_USED: Final = """
    SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
        AND pg_relation_size(oid) > 0
"""
"""A table into which nothing was ever written has no file of any length."""

_COUNTED: Final = """
    SELECT setval(c.oid, s.seqstart, false) FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid
    WHERE pg_sequence_last_value(c.oid) IS NOT NULL
"""

_MEASURED: Final = """
    UPDATE pg_class SET relpages = 1, reltuples = 0
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'i' AND relpages = 0 AND reltuples = -1
"""
"""An index that was made says that it is empty, one that was emptied says nothing, and plans go by it."""

_IN_PUBLIC: Final = "relnamespace = 'public'::regnamespace"
_OF_FILES: Final = "'relfilenode', 'relfrozenxid', 'relminmxid'"
"""What a table gets anew when it is emptied."""

_RELATIONS: Final = f"(SELECT oid FROM pg_class WHERE {_IN_PUBLIC})"
_HERE: Final = "(SELECT oid FROM pg_database WHERE datname = current_database())"

_PARTS: Final = (
    f"SELECT (to_jsonb(t) - ARRAY[{_OF_FILES}])::text FROM pg_class t WHERE {_IN_PUBLIC}",
    "SELECT t::text FROM pg_attribute t WHERE attnum > 0 AND attrelid IN " + _RELATIONS,
    "SELECT t::text FROM pg_attrdef t",
    "SELECT t::text FROM pg_trigger t",
    "SELECT t::text FROM pg_constraint t",
    "SELECT t::text FROM pg_rewrite t WHERE oid >= 16384",
    "SELECT t::text FROM pg_index t WHERE indrelid IN " + _RELATIONS,
    "SELECT t::text FROM pg_proc t WHERE oid >= 16384",
    "SELECT t::text FROM pg_type t WHERE oid >= 16384",
    "SELECT t::text FROM pg_namespace t WHERE nspname NOT LIKE 'pg\\_%'",
    "SELECT t::text FROM pg_default_acl t",
    "SELECT t::text FROM pg_extension t",
    "SELECT starelid::text FROM pg_statistic WHERE starelid >= 16384",
    "SELECT setconfig::text FROM pg_db_role_setting WHERE setdatabase = " + _HERE,
    "SELECT concat(datdba, datacl, datconnlimit, datallowconn) FROM pg_database WHERE oid = " + _HERE,
    "SELECT version_num::text FROM alembic_version",
)

_SHAPE: Final = (
    f"SELECT md5(string_agg(part, chr(10) ORDER BY part)) FROM ({' UNION ALL '.join(_PARTS)}) AS t(part)"
)


async def shape_of(url: str) -> str:
    """Return a text that differs if tables, triggers, rights, settings or statistics differ."""
    connection = await asyncpg.connect(url)
    try:
        return str(await connection.fetchval(_SHAPE))
    finally:
        await connection.close()


async def is_emptied(url: str, shape: str) -> bool:
    """Empty a database, as a superuser, and return whether it is now as one that was just made."""
    connection = await asyncpg.connect(url, server_settings={"session_replication_role": "replica"})
    try:
        return await _is_left_alone(connection) and shape == await _emptied(connection)
    finally:
        await connection.close()


async def _is_left_alone(connection: Any) -> bool:
    return await connection.fetchval(_OTHERS) is not False


async def _emptied(connection: Any) -> str:
    if used := await connection.fetchval(_USED):
        await connection.execute(f"TRUNCATE {used} CASCADE")
        await connection.execute(_MEASURED)
    await connection.execute(_COUNTED)
    return str(await connection.fetchval(_SHAPE))
