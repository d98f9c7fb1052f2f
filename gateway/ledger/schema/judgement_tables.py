"""Tables of judging: what promoted scores teach, and the states of builds."""

from __future__ import annotations

from sqlalchemy import Column, Table

from gateway.ledger.schema.base import Int64, Text, metadata, required

baselines = Table(
    "baselines",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    required("count", Int64),
    required("total", Text),
    required("total_of_squares", Text),
    required("recent", Text),
    Column("lowest", Int64),
    Column("highest", Int64),
    required("seq", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""What promoted scores teach about players, builds and boards.

Sums are decimal text, because squares of scores need 106 bits and more, and only whole numbers forget a
revoked score without a trace. `recent` has the newest promoted scores as JSON, oldest first:
[achieved_at_ms, seq, score]. An empty `player` is the whole board, one that begins with `@` is a build.
"""

build_changes = Table(
    "build_changes",
    metadata,
    Column("board", Text, primary_key=True),
    Column("build", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    required("status", Text),
    required("actor", Text),
    required("reason", Text),
    required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
