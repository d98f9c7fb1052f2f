"""The whole schema as SQLite's statements.

New files are made with it, and existing ledgers are compared with it.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Final

from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.ledger.append_only import SQLITE_TRIGGERS
from gateway.ledger.schema import SCHEMA_VERSION, metadata

_VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""The table as alembic makes it."""


@cache
def schema_statements() -> tuple[str, ...]:
    """Return the DDL of the whole schema at its newest version. The migrations lead to the same."""
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect.dialect())))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements += [str(CreateIndex(index).compile(dialect=dialect.dialect())) for index in indexes]
    return (*statements, *SQLITE_TRIGGERS)


def create_schema(connection: sqlite3.Connection) -> None:
    """Make an empty file a ledger at the newest version, without loading alembic, which is slow."""
    for statement in schema_statements():
        connection.execute(statement)
    connection.execute(_VERSION_TABLE)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (SCHEMA_VERSION,))
