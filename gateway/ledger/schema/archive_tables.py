"""Tables of the archive: windows that are over, and their final ranks."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Table

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

ARCHIVE_WORK: Final = "changed_seq > 0 OR stage IN ('folding', 'copying', 'sweeping', 'forgetting')"

ARCHIVE_KEPT: Final = "stage NOT IN ('forgetting', 'forgotten')"
"""The archived windows that have work now, and those that a retention may end."""

archived_windows = Table(
    "archived_windows",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    required("begin_ms", Int64),
    required("end_ms", Int64),
    required("expires_at_ms", Int64),
    required("policy", Text),
    required("policy_digest", Text),
    required("rule", Text),
    required("stage", Text),
    required("revision", Int64),
    required("building", Int64),
    required("is_thin", Int64),
    required("changed_seq", Int64),
    required("frozen_at_ms", Int64),
    required("upto_seq", Int64),
    required("entries", Int64),
    required("groups", Int64),
    Index("archived_windows_by_end", "board", "end_ms", "window"),
    partial_index("archived_windows_at_work", "board", "window", where=ARCHIVE_WORK),
    partial_index("archived_windows_to_thin", "expires_at_ms", where="stage = 'frozen'"),
    partial_index("archived_windows_to_forget", "end_ms", where=ARCHIVE_KEPT),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Windows that are over or about to be.

`revision` is the readable one (0: none), `building` the newest that was begun, `changed_seq` an event that
the readable one lacks (0: none). `is_thin` is 1 once standings of the window may be gone.
"""

ARCHIVE_IN_FORCE: Final = archived_windows.c.stage != "withdrawn"
"""The windows that are archived or being archived: not `alltime` of a board that was reopened or deleted."""

archived_entries = Table(
    "archived_entries",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    Column("rank", Int64, primary_key=True, autoincrement=False),
    required("sparse_rank", Int64),
    required("dense_rank", Int64),
    required("player", Text),
    required("score", Int64),
    required("achieved_at_ms", Int64),
    required("submission_id", Text),
    required("order_value", Int64),
    required("member", Text),
    Index("archived_entries_of_player", "board", "window", "revision", "player", unique=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The final ranks of archived windows."""
