"""Tables of players who became one, and of players whose data was erased."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table, text

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

player_merges = Table(
    "player_merges",
    metadata,
    Column("merge_id", Text, primary_key=True),
    required("source", Text),
    required("target", Text),
    required("actor", Text),
    required("began_at_ms", Int64),
    Column("undone_at_ms", Int64),
    required("undone_by", Text),
    required("changed_seq", Int64),
    required("changed_count", Int64),
    Column("seen_seq", Int64),
    Column("again_ms", Int64),
    required("friends", Text),
    Index(
        "player_merges_in_force",
        "source",
        unique=True,
        sqlite_where=text("undone_at_ms IS NULL"),
        postgresql_where=text("undone_at_ms IS NULL"),
    ),
    Index("player_merges_of_source", "source", "changed_seq"),
    Index("player_merges_of_target", "target", "changed_seq"),
    partial_index("player_merges_at_work", "changed_seq", where="seen_seq IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Merges of a player into another. While `undone_at_ms` is NULL, what the source plays counts for the target.

`changed_seq` is the event that began or undid the merge. Until all submissions have followed it, `seen_seq`
is the number of the submission up to which they have; `changed_count` is how many did. `again_ms` is when a
steward begins anew for those that it passed over. `friends` are those whom the target follows since, as JSON.
"""

erasures = Table(
    "erasures",
    metadata,
    Column("player", Text, primary_key=True),
    required("actor", Text),
    required("asked_at_ms", Int64),
    required("due_at_ms", Int64),
    Column("begun_seq", Int64),
    required("seen_seq", Int64),
    required("rows_erased", Int64),
    Column("ended_at_ms", Int64),
    partial_index("erasures_due", "due_at_ms", "player", where="ended_at_ms IS NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Players whose data is to be erased, once `due_at_ms` is over, and those whose data was.

`begun_seq` is the event from which on it cannot be taken back. `seen_seq` is the number of the event up to
which the log was erased, `ended_at_ms` when all was.
"""

erased_rows = Table(
    "erased_rows",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("sealed", LargeBinary),
    required("kept", LargeBinary),
    required("by_seq", Int64),
    sqlite_strict=True,
)
"""Events from which texts were erased: the leaf of what was there, and of what is left.

The event `by_seq`, which is sealed like any other, names both.
"""
