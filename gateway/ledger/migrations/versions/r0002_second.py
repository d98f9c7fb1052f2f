"""The second schema: when players joined boards and left them.

On PostgreSQL the role `scoregate_app` gets what the parts need and no more.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table
from sqlalchemy import Text as PlainText

revision: Final = "0002"
down_revision: Final = "0001"

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


Table(
    "join_changes",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    _required("is_joined", Int64),
    _required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_DELETED: Final = ("join_changes",)
"""The new tables from which the application may take rows away."""

_FILL: Final = (
    "INSERT INTO join_changes (board, player, revision, is_joined, at_ms) "
    "SELECT board, player, 1, is_joined, at_ms FROM joins"
)


def upgrade() -> None:
    """Makes the new tables, and fills them with what the old ones tell."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    op.execute(_FILL)
    if op.get_context().dialect.name == "postgresql":
        _grant()


def _grant() -> None:
    for table in metadata.tables:
        op.execute(f"GRANT SELECT, INSERT ON {table} TO scoregate_app")
    op.execute(f"GRANT DELETE ON {', '.join(_DELETED)} TO scoregate_app")
