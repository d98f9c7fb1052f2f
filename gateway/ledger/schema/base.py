"""What all tables share: types, columns and indexes for both databases, and the version of the schema."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, text
from sqlalchemy import Text as PlainText

SCHEMA_VERSION: Final = "0004"
"""The newest migration, raised with every change of a table. A ledger of a later version is refused."""

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")

Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")
"""Text that is ordered by its bytes on either database, as in Python, whatever the locale of the server."""


def required(name: str, kind: object, **options: object) -> Column[object]:
    """Return a column that is never NULL."""
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


def partial_index(name: str, *columns: str, where: str) -> Index:
    """Return an index of the rows for which a condition holds."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def is_known(version: str) -> bool:
    """Return whether this program can read a version, or upgrade it."""
    return version.isdecimal() and len(version) == len(SCHEMA_VERSION) and "0000" < version <= SCHEMA_VERSION
