"""The whole schema as SQLite's statements: what a new file is made with, and others are compared with."""

from __future__ import annotations

import sqlite3
from functools import cache
from typing import Final

from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from gateway.ledger.schema import SCHEMA_VERSION, SQLITE_TRIGGERS, metadata

_VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""As alembic makes it."""


@cache
def schema_statements() -> tuple[str, ...]:
    """The DDL of the whole schema as it is today; what the migrations lead to as well."""
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect.dialect())))
        indexes = sorted(table.indexes, key=lambda each: str(each.name))
        statements += [str(CreateIndex(index).compile(dialect=dialect.dialect())) for index in indexes]
    return (*statements, *SQLITE_TRIGGERS)


def create_schema(connection: sqlite3.Connection) -> None:
    """Makes an empty file a ledger at the newest version, without the time that alembic takes to load."""
    for statement in schema_statements():
        connection.execute(statement)
    connection.execute(_VERSION_TABLE)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (SCHEMA_VERSION,))
