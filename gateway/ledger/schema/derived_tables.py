"""Tables of what a steward derives from the events: positions, counts, achievements, webhooks."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table

from gateway.ledger.schema.base import Int64, Text, metadata, required

progress = Table(
    "progress",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    required("seq", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""How far each consumer of the log came, and what else a duty has to remember of a board."""

board_counts = Table(
    "board_counts",
    metadata,
    Column("board", Text, primary_key=True),
    required("attempts", Int64),
    required("promoted", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

achievements = Table(
    "achievements",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    required("rank", Int64),
    required("submission_id", Text),
    required("seq", Int64),
    required("at_ms", Int64),
    Index("achievements_of_player", "player", "seq", "window"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

trend_slots = Table(
    "trend_slots",
    metadata,
    Column("board", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("span_ms", Int64, primary_key=True, autoincrement=False),
    Column("begin_ms", Int64, primary_key=True, autoincrement=False),
    required("sketch", LargeBinary),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    required("url", Text),
    required("secret", LargeBinary),
    required("boards", Text),
    required("types", Text),
    required("created_at_ms", Int64),
    required("failures", Int64),
    Column("disabled_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The endpoints that webhooks are sent to."""

deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    Column("event_id", Text, primary_key=True),
    required("type", Text),
    required("body", LargeBinary),
    required("created_at_ms", Int64),
    required("due_at_ms", Int64),
    required("tries", Int64),
    required("state", Text),
    required("outcome", Text),
    Index("deliveries_by_state", "state", "webhook_id", "due_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""What each endpoint still has to get. After its end, `due_at_ms` is when it ended."""
