"""The fourth schema: the moderators' desk.

Indexes find the submissions of a player, and the events that a moderator caused. Moderators have accounts, whose
changes are events; their sessions, invitations and tokens come and go, and are stored as digests.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, text
from sqlalchemy import Text as PlainText

revision: Final = "0004"
down_revision: Final = "0003"

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


Table(
    "moderators",
    metadata,
    Column("moderator", Text, primary_key=True),
    _required("players", Text),
    Column("password", Text),
    Column("second_factor", LargeBinary),
    Column("second_factor_step", Int64),
    _required("created_at_ms", Int64),
    Column("disabled_at_ms", Int64),
    _required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "moderator_grants",
    metadata,
    Column("moderator", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    _required("role", Text),
    Index("moderator_grants_of_role", "role", "scope"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "invitations",
    metadata,
    Column("moderator", Text, primary_key=True),
    _required("digest", LargeBinary, unique=True),
    _required("expires_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "moderator_sessions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("session_id", Text),
    _required("moderator", Text),
    _required("address", Text),
    _required("browser", Text),
    _required("created_at_ms", Int64),
    _required("used_at_ms", Int64),
    _required("expires_at_ms", Int64),
    Index("moderator_sessions_of_moderator", "moderator", "created_at_ms", "session_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "api_tokens",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("token_id", Text),
    _required("moderator", Text),
    _required("label", Text),
    _required("ability", Text),
    _required("scopes", Text),
    _required("created_at_ms", Int64),
    _required("expires_at_ms", Int64),
    Index("api_tokens_of_moderator", "moderator", "created_at_ms", "token_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_BY_MODERATOR: Final = text("actor LIKE 'moderator:%'")

_UPDATES: Final = {
    "moderators": "players, password, second_factor, second_factor_step, disabled_at_ms, version",
    "invitations": "digest, expires_at_ms",
    "moderator_sessions": "used_at_ms",
}
"""The columns that the application may change."""

_DELETED: Final = ("moderator_grants", "invitations", "moderator_sessions", "api_tokens")
"""The tables from which the application may take rows away."""


def upgrade() -> None:
    """Add the tables of moderators, and the indexes of what they look for."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    op.create_index("submissions_of_player", "submissions", ["player", "seq"])
    _add_index("events_by_moderator", ["actor", "seq"])
    _add_index("events_by_moderators", ["seq"])
    if op.get_context().dialect.name == "postgresql":
        _grant()


def _add_index(name: str, columns: list[str]) -> None:
    op.create_index(name, "events", columns, sqlite_where=_BY_MODERATOR, postgresql_where=_BY_MODERATOR)


def _grant() -> None:
    for table in metadata.tables:
        op.execute(f"GRANT SELECT, INSERT ON {table} TO scoregate_app")
    for table, columns in _UPDATES.items():
        op.execute(f"GRANT UPDATE ({columns}) ON {table} TO scoregate_app")
    op.execute(f"GRANT DELETE ON {', '.join(_DELETED)} TO scoregate_app")
