"""Tables of submissions: what came in, the log of what became of it, and the work that it causes."""

from __future__ import annotations

from typing import Final

from sqlalchemy import CheckConstraint, Column, ColumnElement, Index, LargeBinary, Table, literal_column, text

from gateway.ledger.schema.base import Int64, Text, metadata, partial_index, required
from policies.vocabulary import State

server_keys = Table(
    "server_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    required("public_key", LargeBinary),
    required("boards", Text),
    required("created_at_ms", Int64),
    Column("revoked_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

server_operations = Table(
    "server_operations",
    metadata,
    Column("operation_id", Text, primary_key=True),
    required("credential", Text),
    required("nonce", Text),
    required("request_digest", LargeBinary),
    required("content_digest", LargeBinary),
    required("board", Text),
    required("player", Text),
    Column("version", Int64),
    required("revoked", Text),
    required("at_ms", Int64),
    Column("answers", Text),
    Index("server_operations_of_nonce", "credential", "nonce"),
    Index("server_operations_of_slot", "board", "player"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

slot_versions = Table(
    "slot_versions",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    required("version", Int64),
    required("removed_version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

recordings = Table(
    "recordings",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    required("size_bytes", Int64),
    Column("body", LargeBinary),
    required("first_seq", Int64),
    sqlite_strict=True,
)
"""Recordings, or digests of those that a store of large recordings has. They are written once."""

recording_expiries = Table(
    "recording_expiries",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    required("size_bytes", Int64),
    required("first_seq", Int64),
    required("expired_at_ms", Int64),
    sqlite_strict=True,
)
"""Digest and size of recordings that were deleted (`gateway.ledger.judgement.expiry`).

A recording that is sent again has a row in both tables. `first_seq` is the event that it first came with.
"""

commitments = Table(
    "commitments",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("size_bytes", Int64),
    required("reveal_ms", Int64),
    Column("asked_at_ms", Int64),
    Column("revealed_at_ms", Int64),
    sqlite_strict=True,
)
"""Submissions, by `seq`, that came with a digest and no recording (`gateway.ledger.judgement.reveals`)."""

recording_bands = Table(
    "recording_bands",
    metadata,
    Column("board", Text, primary_key=True),
    Column("band", Int64, primary_key=True, autoincrement=False),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Numbers by which similar recordings are found. `seq` is that of the submission."""


BANNED: Final = "state = 'revoked' AND reason = 'banned'"
"""The condition that a submission does not count because its player is banned."""


def _index_of_state(state: State, *columns: str, suffix: str = "") -> Index:
    """Return an index of the submissions in one state, so that an append costs the other states nothing."""
    where = text(f"state = '{state.value}'")
    return Index(f"submissions_{state.value}{suffix}", *columns, sqlite_where=where, postgresql_where=where)


submissions = Table(
    "submissions",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("submission_id", Text, unique=True),
    required("board", Text),
    required("player", Text),
    required("credential", Text),
    required("nonce", Text),
    required("content_digest", LargeBinary),
    required("build", Text),
    required("seed", Int64),
    required("issued_at_ms", Int64),
    required("received_at_ms", Int64),
    required("achieved_at_ms", Int64),
    required("score", Int64),
    required("ticks", Int64),
    required("stats", Text),
    Column("details", Text),
    Column("recording_digest", LargeBinary),
    required("simulator", Text),
    Column("runs_opened", Int64),
    Column("runs_submitted", Int64),
    required("findings", Text),
    required("initial_state", Text),
    required("state", Text),
    required("reason", Text),
    required("attempt", Int64),
    required("lease_until_ms", Int64),
    Column("board_content", LargeBinary),
    Column("played_by", Text),
    CheckConstraint(
        "score BETWEEN -9007199254740991 AND 9007199254740991", name="score_is_exact_as_a_double"
    ),
    _index_of_state(State.PENDING, "board", "seq"),
    _index_of_state(State.HELD, "board", "seq"),
    _index_of_state(State.REVOKED, "board", "seq"),
    _index_of_state(State.PROMOTED, "board", "player", "achieved_at_ms"),
    _index_of_state(State.PROMOTED, "board", "build", "achieved_at_ms", suffix="_of_build"),
    _index_of_state(State.PROMOTED, "board", "build", "score", suffix="_by_score"),
    Index("submissions_of_player", "player", "seq"),
    partial_index("submissions_moved", "player", "played_by", "seq", where="played_by IS NOT NULL"),
    partial_index("submissions_banned", "board", "player", "seq", where=BANNED),
    partial_index("submissions_banned_of_player", "player", "board", "achieved_at_ms", "score", where=BANNED),
    partial_index("submissions_banned_by_score", "player", "board", "score", "achieved_at_ms", where=BANNED),
    Index(
        "submissions_of_recording",
        "recording_digest",
        sqlite_where=text("recording_digest IS NOT NULL"),
        postgresql_where=text("recording_digest IS NOT NULL"),
    ),
    sqlite_strict=True,
)
"""Submissions. Their facts are written once.

`state`, `reason`, `attempt` and `lease_until_ms` follow from the events, and are kept beside them. `player`
is for whom it counts: who played it, or the player into whom that one was merged; then `played_by`, which is
NULL otherwise, is who played it.
"""

_IS_OF_BOARD: Final = text("player = ''")
"""The condition that an event is of the life of a board, and of no submission.

An event of a rollup has a player, though it has no submission either.
"""

_IS_OF_PLAYER: Final = text("player != ''")
"""The condition that an event is of a player. A query that is to use the index says it likewise."""

OF_NO_BAN: Final = "(actor <> 'ban' OR reason = 'record-unreadable')"
"""The condition that an event of a submission would be there had nobody been banned."""

BY_MODERATOR: Final = "actor LIKE 'moderator:%'"
"""The condition that a moderator caused an event. A query that is to use the index says it likewise."""

OF_PLAYER_ALONE: Final = "submission_id = '' AND player <> '' AND actor <> 'rollup' AND actor <> 'merge'"
"""The condition that an event is of a player themselves: a ban, a name, the begin of a merge."""

VERIFIED: Final = "to_state = 'promoted' AND reason = 'verified'"
"""The condition that an event is a promotion by a replay."""

events = Table(
    "events",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("submission_id", Text),
    required("board", Text),
    required("player", Text),
    required("from_state", Text),
    required("to_state", Text),
    required("actor", Text),
    required("reason", Text),
    required("policy", Text),
    required("rules_version", Int64),
    required("detail", Text),
    required("at_ms", Int64),
    Index("events_of_submission", "submission_id"),
    Index("events_of_board", "board", "seq", sqlite_where=_IS_OF_BOARD, postgresql_where=_IS_OF_BOARD),
    Index("events_of_players", "board", "seq", sqlite_where=_IS_OF_PLAYER, postgresql_where=_IS_OF_PLAYER),
    partial_index("events_verified", "board", "seq", where=VERIFIED),
    partial_index("events_of_player", "player", "seq", where=OF_PLAYER_ALONE),
    partial_index("events_by_moderator", "actor", "seq", where=BY_MODERATOR),
    partial_index("events_by_moderators", "seq", where=BY_MODERATOR),
    sqlite_strict=True,
)
"""The log: written once, and sealed. All else follows from it, or is kept beside it."""

outbox = Table(
    "outbox",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    required("kind", Text),
    required("submission_id", Text),
    required("board", Text),
    required("player", Text),
    required("due_at_ms", Int64),
    required("priority", Int64),
    required("handed_out", Int64),
    Index("outbox_due", "kind", "priority", "due_at_ms"),
    Index(
        "outbox_reveals",
        "player",
        "due_at_ms",
        sqlite_where=text("kind = 'reveal'"),
        postgresql_where=text("kind = 'reveal'"),
    ),
    sqlite_strict=True,
)
"""Work to do. `handed_out` is 1 once a worker may have it."""


def is_in(state: State) -> ColumnElement[bool]:
    """Return the condition that a submission is in a state. A bound state would not use the state's index."""
    return submissions.c.state == literal_column(f"'{state.value}'")
