"""Tables of batches: decisions on many submissions, each previewed before it is made."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

batches = Table(
    "batches",
    metadata,
    Column("batch_id", Text, primary_key=True),
    required("actor", Text),
    required("scopes", Text),
    required("selection", Text),
    required("action", Text),
    required("reason", Text),
    required("detail", Text),
    required("state", Text),
    required("version", Int64),
    required("begin_seq", Int64),
    required("created_at_ms", Int64),
    required("changed_at_ms", Int64),
    Column("due_at_ms", Int64),
    required("place", Text),
    required("looked_at", Int64),
    required("items", Int64),
    required("preview", Text),
    required("outcomes", Text),
    required("left_out", Text),
    required("decided_by", Text),
    required("reversed_by", Text),
    Index("batches_in_order", "begin_seq", "batch_id"),
    partial_index("batches_due", "due_at_ms", "batch_id", where="due_at_ms IS NOT NULL"),
    partial_index("batches_unfinished", "actor", where="due_at_ms IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Batches. `begin_seq` is the newest event when the batch was made.

`place` is how far the work of the state has come, as JSON. `due_at_ms` is when a steward has work with the
batch, null if never: at once while it works, and for a preview when it expires. Every change of the state
raises the version. `preview` is what was found out about the selection, as JSON. So are `outcomes`, how many
items have each outcome, and `left_out`, how many were left for each reason.
"""

batch_items = Table(
    "batch_items",
    metadata,
    Column("batch_id", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("submission_id", Text),
    required("player", Text),
    required("newest_event", Int64),
    required("outcome", Text),
    Column("decided_seq", Int64),
    required("why", Text),
    required("detail", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The submissions of a batch, by `seq`, each with its newest event when it was previewed.

`decided_seq` is the event by which the batch decided on it, null before and where it did not. `why` is the
reason for which it was left, empty if it was not. `detail` is JSON that its event has, too.
"""
