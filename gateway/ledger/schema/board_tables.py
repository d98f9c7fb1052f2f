"""Tables of the boards of families, and of what is due on them."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

# A row may have 8 KiB of metadata and parameters, so the primary key is an index beside the rows.
boards = Table(
    "boards",
    metadata,
    Column("board", Text, primary_key=True),
    required("lane", Int64),
    required("family", Text),
    required("title", Text),
    required("metadata", Text),
    required("parameters", LargeBinary),
    Column("asset", LargeBinary),
    Column("bounds", Text),
    required("state", Text),
    Column("opens_at_ms", Int64),
    Column("closes_at_ms", Int64),
    required("opened_at_ms", Int64),
    required("opened_by", Text),
    required("opened_seq", Int64),
    required("version", Int64),
    required("seq", Int64),
    required("plays", Int64),
    Index("boards_by_name", "family", "state", "board"),
    Index("boards_by_age", "family", "state", "opened_seq"),
    Index("boards_by_plays", "family", "state", "plays", "board"),
    partial_index("boards_of_asset", "asset", where="asset IS NOT NULL"),
    partial_index(
        "boards_to_close", "lane", "closes_at_ms", where="state = 'open' AND closes_at_ms IS NOT NULL"
    ),
    sqlite_strict=True,
)
"""Boards of families, as their events say (`gateway.ledger.boards`).

`metadata` and `bounds` are JSON, `parameters` canonical JSON or empty, `asset` the digest of a stored file.
`opened_seq` is the event that opened the board, `seq` its newest event. `plays` is the logarithm of a
decaying count of runs.
"""

board_fields = Table(
    "board_fields",
    metadata,
    Column("board", Text, primary_key=True),
    Column("field", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    required("family", Text),
    required("opened_seq", Int64),
    required("plays", Int64),
    Index("board_fields_by_name", "family", "field", "value", "board"),
    Index("board_fields_by_age", "family", "field", "value", "opened_seq"),
    Index("board_fields_by_plays", "family", "field", "value", "plays", "board"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Metadata by which a family's boards are filtered, a row for each field of a board that is not deleted."""

family_openings = Table(
    "family_openings",
    metadata,
    Column("family", Text, primary_key=True),
    required("boards", Int64),
    required("whole_at_us", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""How many boards of a family players ever opened.

`whole_at_us` is when their limit of an hour is whole again (microseconds since 1970).
"""

board_duties = Table(
    "board_duties",
    metadata,
    Column("duty", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    required("lane", Int64),
    required("due_at_ms", Int64),
    required("first_seq", Int64),
    required("last_seq", Int64),
    Index("board_duties_due", "duty", "due_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""What is next due on a board, and the first and last event that made it due.

A board without work has no row (`gateway.ledger.derived.board_duties`).
"""
