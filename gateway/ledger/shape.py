"""Comparison of a ledger's columns, indexes and triggers with those of its schema's version."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gateway.ledger.definition import create_schema
from gateway.ledger.schema import SCHEMA_VERSION
from policies.errors import LedgerUnavailable


class ColumnShape(NamedTuple):
    """The type of a column in SQLite's words, and whether it must have a value."""

    kind: str
    is_required: bool


class Shape(NamedTuple):
    """The columns of each table, the columns of each named index, and the names of the triggers."""

    tables: Mapping[str, Mapping[str, ColumnShape]]
    indexes: Mapping[str, tuple[str, ...]]
    triggers: frozenset[str]


_SQLITE_KINDS: Final = {"bigint": "INTEGER", "integer": "INTEGER", "bytea": "BLOB", "text": "TEXT"}

_POSTGRES_COLUMNS: Final = """
    SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), a.attnotnull
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
        AND NOT a.attisdropped
"""
_POSTGRES_INDEXES: Final = """
    SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('i', 'I') GROUP BY c.relname
"""
_POSTGRES_TRIGGERS: Final = """
    SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal
    GROUP BY tgname HAVING bool_and(tgenabled IN ('O', 'A'))
"""  # each partition has a copy of its table's, which can be switched off alone


def check_sqlite(connection: sqlite3.Connection, version: str, where: str) -> None:
    """Raise LedgerUnavailable, in one sentence, unless the file has the tables of its version."""
    _check(shape_of_sqlite(connection), version, where)


async def check_postgres(connection: Any, version: str) -> None:
    """Raise LedgerUnavailable, in one sentence, unless the database has the tables of its version."""
    columns = await connection.fetch(_POSTGRES_COLUMNS)
    tables: dict[str, dict[str, ColumnShape]] = {}
    for table, column, kind, is_required in columns:
        tables.setdefault(table, {})[column] = ColumnShape(_SQLITE_KINDS.get(kind, kind), is_required)
    indexes = {name: tuple(names) for name, names in await connection.fetch(_POSTGRES_INDEXES)}
    triggers = frozenset(name for (name,) in await connection.fetch(_POSTGRES_TRIGGERS))
    _check(Shape(tables, indexes, triggers), version, "the PostgreSQL database")


def shape_of_sqlite(connection: sqlite3.Connection) -> Shape:
    """Return the shape of a file."""
    names: dict[str, list[str]] = defaultdict(list)
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema").fetchall():
        names[kind].append(name)
    tables = {
        table: {
            name: ColumnShape(kind, bool(is_required))
            for _, name, kind, is_required, *_ in connection.execute(f"PRAGMA table_info('{table}')")
        }
        for table in names["table"]
    }
    indexes = {
        index: tuple(row[2] for row in connection.execute(f"PRAGMA index_info('{index}')"))
        for index in names["index"]
    }
    return Shape(tables, indexes, frozenset(names["trigger"]))


@lru_cache(maxsize=4)
def shape_of_version(version: str) -> Shape:
    """Return the shape of a ledger of a version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        if version == SCHEMA_VERSION:
            create_schema(connection)
        else:
            from gateway.ledger.migrate import upgrade_sqlite  # noqa: PLC0415 - alembic is slow to load

            upgrade_sqlite(connection, version)
        return shape_of_sqlite(connection)


def _check(actual: Shape, version: str, where: str) -> None:
    difference = _difference(shape_of_version(version), actual)
    if difference:
        raise LedgerUnavailable(
            f"{where}: is not the ledger that schema version {version} was released with, {difference}: "
            "restore a backup of a released version, or begin a new ledger"
        )


def _difference(expected: Shape, actual: Shape) -> str | None:
    """Return the first difference, or None. Operators may add tables and indexes of their own."""
    for table, columns in expected.tables.items():
        if table not in actual.tables:
            return f"the table {table} is missing"
        for column in sorted(columns.keys() ^ actual.tables[table].keys()):
            return f"the column {column} of {table} is " + ("missing" if column in columns else "unknown")
        for column, shape in columns.items():
            # Alembic gives its table other types on each database.
            if table != "alembic_version" and actual.tables[table][column] != shape:
                return f"the column {column} of {table} is of another type"
    for index, names in expected.indexes.items():
        if not index.startswith("sqlite_") and actual.indexes.get(index) != names:
            return f"the index {index} is missing or of other columns"
    missing = sorted(expected.triggers - actual.triggers)
    return f"the trigger {missing[0]} is missing" if missing else None
