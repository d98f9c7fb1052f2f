"""Tables of cases: what waits for moderators, and who is in it."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required

cases = Table(
    "cases",
    metadata,
    Column("submission_id", Text, primary_key=True),
    required("seq", Int64),
    required("board", Text),
    required("label", Text),
    required("player", Text),
    required("build", Text),
    required("kind", Text),
    required("reason", Text),
    required("harm", Int64),
    required("opened_at_ms", Int64),
    required("order_key", Int64),
    required("claimed_by", Text),
    required("claimed_until_ms", Int64),
    required("waits_until_ms", Int64),
    required("not_for", Text),
    required("cannot_tell", Int64),
    required("needs_senior", Int64),
    required("known_seq", Int64),
    Index("cases_in_order", "order_key", "seq"),
    Index("cases_of_label", "label", "order_key", "seq"),
    Index("cases_of_board", "board", "order_key", "seq"),
    Index("cases_of_player", "player", "order_key", "seq"),
    Index("cases_by_age", "label", "opened_at_ms"),
    partial_index("cases_unassessed", "seq", where="harm < 0"),
    partial_index("cases_to_check", "submission_id", where="kind = 'check'"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Submissions that wait for a moderator, written and removed with the events that hold and end them.

`seq` is the submission's, `label` the name of its policy file. The queue is in the order of `order_key`,
which does not change once the harm is assessed. `not_for` has the moderators who may not have
the case, with spaces between them. `known_seq` is the event of the decision that a
check asks for again, and 0 of every other case.
"""

case_counts = Table(
    "case_counts",
    metadata,
    Column("label", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    required("cases", Int64),
    required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""How many cases there are of each policy file and reason. Every change of one of them raises the version."""

case_targets = Table(
    "case_targets",
    metadata,
    Column("submission_id", Text, primary_key=True),
    required("board", Text),
    required("late_at_ms", Int64),
    required("is_late", Int64),
    partial_index("case_targets_ahead", "late_at_ms", where="is_late = 0"),
    partial_index("case_targets_late", "board", where="is_late = 1"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Until when each case should be decided, where the policy says so, and whether it was noted as late."""

late_queues = Table(
    "late_queues",
    metadata,
    Column("board", Text, primary_key=True),
    required("label", Text),
    required("since_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The boards that have a late case, and since when."""

queue_views = Table(
    "queue_views",
    metadata,
    Column("moderator", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    required("filters", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Filters of the queue that moderators saved under names, as JSON."""

case_passes = Table(
    "case_passes",
    metadata,
    Column("submission_id", Text, primary_key=True),
    Column("moderator", Text, primary_key=True),
    required("until_ms", Int64),
    required("could_not_tell", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Cases that a moderator left to others: until then they are not offered to this one again."""
