"""The tables of the ledger.

All times are Unix milliseconds. These tables are written once: `events`, `recordings`, and the facts of
`submissions`. These follow from the events, and are kept beside them: `standings`, `baselines`, and `state`,
`reason`, `attempt` and `lease_until_ms` of a submission.

- `recording_bands`: numbers by which similar recordings are found. `seq` is that of the submission.
- `outbox`: work to do. `handed_out` is 1 once a worker may have it.
- `recording_expiries`: digest and size of recordings that were deleted (`gateway.ledger.judgement.expiry`). A
  recording that is sent again has a row in both tables. `first_seq` is the event that it first came with.
- `commitments`: submissions, by `seq`, that came with a digest instead of a recording
  (`gateway.ledger.judgement.reveals`).
- `taken_names`: display names by what they look like (`gateway.edge.players.names`), if a deployment wants
  unique ones.
- `rank_anchors`: how many standings are ahead of some places. `rank_moves`: changes since
  (`gateway.ledger.standings.anchors`).
- `joins`: who is on a board now. `join_changes`: when each of its players joined or left, the newest of many.
- `progress`, `board_counts`, `trend_slots`, `achievements`: derived from events by the steward.
- `webhooks`: endpoints. `deliveries`: what each of them still has to get. After its end, `due_at_ms` is when
  it ended.
- `rollup_points`: the points that players have for their ranks on boards of a rollup's family.
  `rollup_borders`: the places up to which percentiles give points there, as JSON, and by which rules.
  `rollup_changes`: windows of boards whose first ranks have to be compared with them, or whose board was
  deleted, so that its players are folded anew, those after `after`.
- `archived_windows`: windows that are over or about to be. `revision` is the readable one (0: none yet),
  `building` the newest that was begun, `changed_seq` an event that the readable one lacks (0: none).
  `is_thin` is 1 once standings of the window may be gone. `archived_entries`: their final ranks.
- `boards`: boards of families, as their events say (`gateway.ledger.boards`). `metadata` and `bounds` are
  JSON, `parameters` canonical JSON or empty, `asset` the digest of a stored file. `opened_seq` is the event
  that opened the board, `seq` its newest event. `plays` is the logarithm of a decaying count of runs.
- `board_fields`: metadata by which a family's boards are filtered, a row for each field of a board that is
  not deleted.
- `board_duties`: what is next due on a board, and the first and last event that made it due
  (`gateway.ledger.derived.board_duties`). A board without work has no row.
- `family_openings`: how many boards of a family players ever opened, and when their limit of an hour is whole
  again (microseconds since 1970).
- `stewards`: when the lease of each steward ends. `leases`: who has each lane and each duty; `epoch` is the
  fencing number.
- `baselines`: sums are decimal text, because squares of scores need 106 bits and more, and only whole numbers
  forget a revoked score without a trace. `recent` has the newest promoted scores as JSON, oldest first:
  [achieved_at_ms, seq, score]. An empty `player` is the whole board, one that begins with `@` is a build.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    literal_column,
    text,
)
from sqlalchemy import Text as PlainText

from policies.vocabulary import State

SCHEMA_VERSION: Final = "0003"
"""The newest migration, raised with every change of a table. A ledger of a later version is refused."""

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")
"""Text that is ordered by its bytes on either database, as in Python, whatever the locale of the server."""


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


def _partial(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _index_of_state(state: State, *columns: str, suffix: str = "") -> Index:
    """Return an index of the submissions in one state, so that an append costs the other states nothing."""
    where = text(f"state = '{state.value}'")
    return Index(f"submissions_{state.value}{suffix}", *columns, sqlite_where=where, postgresql_where=where)


players = Table(
    "players",
    metadata,
    Column("player", Text, primary_key=True),
    _required("name", Text),
    _required("created_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

taken_names = Table(
    "taken_names",
    metadata,
    Column("name_key", Text, primary_key=True),
    _required("player", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

server_keys = Table(
    "server_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    _required("public_key", LargeBinary),
    _required("boards", Text),
    _required("created_at_ms", Int64),
    Column("revoked_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

server_operations = Table(
    "server_operations",
    metadata,
    Column("operation_id", Text, primary_key=True),
    _required("credential", Text),
    _required("nonce", Text),
    _required("request_digest", LargeBinary),
    _required("content_digest", LargeBinary),
    _required("board", Text),
    _required("player", Text),
    Column("version", Int64),
    _required("revoked", Text),
    _required("at_ms", Int64),
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
    _required("version", Int64),
    _required("removed_version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

recordings = Table(
    "recordings",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("size_bytes", Int64),
    Column("body", LargeBinary),
    _required("first_seq", Int64),
    sqlite_strict=True,
)

recording_expiries = Table(
    "recording_expiries",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("size_bytes", Int64),
    _required("first_seq", Int64),
    _required("expired_at_ms", Int64),
    sqlite_strict=True,
)

commitments = Table(
    "commitments",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("size_bytes", Int64),
    _required("reveal_ms", Int64),
    Column("asked_at_ms", Int64),
    Column("revealed_at_ms", Int64),
    sqlite_strict=True,
)

recording_bands = Table(
    "recording_bands",
    metadata,
    Column("board", Text, primary_key=True),
    Column("band", Int64, primary_key=True, autoincrement=False),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

submissions = Table(
    "submissions",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("submission_id", Text, unique=True),
    _required("board", Text),
    _required("player", Text),
    _required("credential", Text),
    _required("nonce", Text),
    _required("content_digest", LargeBinary),
    _required("build", Text),
    _required("seed", Int64),
    _required("issued_at_ms", Int64),
    _required("received_at_ms", Int64),
    _required("achieved_at_ms", Int64),
    _required("score", Int64),
    _required("ticks", Int64),
    _required("stats", Text),
    Column("details", Text),
    Column("recording_digest", LargeBinary),
    _required("simulator", Text),
    Column("runs_opened", Int64),
    Column("runs_submitted", Int64),
    _required("findings", Text),
    _required("initial_state", Text),
    _required("state", Text),
    _required("reason", Text),
    _required("attempt", Int64),
    _required("lease_until_ms", Int64),
    Column("board_content", LargeBinary),
    CheckConstraint(
        "score BETWEEN -9007199254740991 AND 9007199254740991", name="score_is_exact_as_a_double"
    ),
    _index_of_state(State.PENDING, "board", "seq"),
    _index_of_state(State.HELD, "board", "seq"),
    _index_of_state(State.PROMOTED, "board", "player", "achieved_at_ms"),
    _index_of_state(State.PROMOTED, "board", "build", "achieved_at_ms", suffix="_of_build"),
    _index_of_state(State.PROMOTED, "board", "build", "score", suffix="_by_score"),
    Index(
        "submissions_of_recording",
        "recording_digest",
        sqlite_where=text("recording_digest IS NOT NULL"),
        postgresql_where=text("recording_digest IS NOT NULL"),
    ),
    sqlite_strict=True,
)

_IS_OF_BOARD: Final = text("player = ''")
"""The condition that an event is of the life of a board, and of no submission.

An event of a rollup has a player, though it has no submission either.
"""

_IS_OF_PLAYER: Final = text("player != ''")
"""The condition that an event is of a player. A query that is to use the index says it likewise."""

VERIFIED: Final = "to_state = 'promoted' AND reason = 'verified'"
"""The condition that an event is a promotion by a replay."""

events = Table(
    "events",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("submission_id", Text),
    _required("board", Text),
    _required("player", Text),
    _required("from_state", Text),
    _required("to_state", Text),
    _required("actor", Text),
    _required("reason", Text),
    _required("policy", Text),
    _required("rules_version", Int64),
    _required("detail", Text),
    _required("at_ms", Int64),
    Index("events_of_submission", "submission_id"),
    Index("events_of_board", "board", "seq", sqlite_where=_IS_OF_BOARD, postgresql_where=_IS_OF_BOARD),
    Index("events_of_players", "board", "seq", sqlite_where=_IS_OF_PLAYER, postgresql_where=_IS_OF_PLAYER),
    _partial("events_verified", "board", "seq", where=VERIFIED),
    sqlite_strict=True,
)

STANDS_IN_FAMILY: Final = text("score IS NOT NULL AND board LIKE '%.%'")
"""The condition of the index `standings_of_player`. A query that is to use the index says it likewise."""

standings = Table(
    "standings",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("score", Int64),
    _required("achieved_at_ms", Int64),
    _required("achieved_seq", Int64),
    _required("submission_id", Text),
    _required("expires_at_ms", Int64),
    _required("seq", Int64),
    _required("order_value", Int64),
    _required("member", Text),
    _required("rule", Text),
    Index(
        "standings_by_place",
        "board",
        "window",
        "order_value",
        "member",
        sqlite_where=text("score IS NOT NULL"),
        postgresql_where=text("score IS NOT NULL"),
    ),
    Index(
        "standings_of_player",
        "player",
        "window",
        "board",
        sqlite_where=STANDS_IN_FAMILY,
        postgresql_where=STANDS_IN_FAMILY,
    ),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rollup_points = Table(
    "rollup_points",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    _required("points", Int64),
    _required("achieved_at_ms", Int64),
    _required("achieved_seq", Int64),
    _required("submission_id", Text),
    Index("rollup_points_of_board", "rollup", "board", "window"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rollup_borders = Table(
    "rollup_borders",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("rule", Text),
    _required("borders", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rollup_changes = Table(
    "rollup_changes",
    metadata,
    Column("rollup", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("seq", Int64),
    _required("after", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

anchored_windows = Table(
    "anchored_windows",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("rule", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rank_anchors = Table(
    "rank_anchors",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("order_value", Int64, primary_key=True, autoincrement=False),
    Column("member", Text, primary_key=True),
    _required("ahead", Int64),
    _required("groups_ahead", Int64),
    Index("rank_anchors_by_rank", "board", "window", "ahead"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

rank_moves = Table(
    "rank_moves",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("series", Int64, primary_key=True, autoincrement=False),
    Column("order_value", Int64, primary_key=True, autoincrement=False),
    Column("member", Text, primary_key=True),
    _required("delta", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

friends = Table(
    "friends",
    metadata,
    Column("player", Text, primary_key=True),
    Column("friend", Text, primary_key=True),
    _required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

friend_lists = Table(
    "friend_lists",
    metadata,
    Column("player", Text, primary_key=True),
    _required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

memberships = Table(
    "memberships",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("version", Int64),
    _required("segments", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

joins = Table(
    "joins",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("is_joined", Int64),
    _required("actor", Text),
    _required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

join_changes = Table(
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

ARCHIVE_WORK: Final = "changed_seq > 0 OR stage IN ('folding', 'copying', 'sweeping', 'forgetting')"
ARCHIVE_KEPT: Final = "stage NOT IN ('forgetting', 'forgotten')"
"""The archived windows that have work now, and those that a retention may end."""

archived_windows = Table(
    "archived_windows",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("begin_ms", Int64),
    _required("end_ms", Int64),
    _required("expires_at_ms", Int64),
    _required("policy", Text),
    _required("policy_digest", Text),
    _required("rule", Text),
    _required("stage", Text),
    _required("revision", Int64),
    _required("building", Int64),
    _required("is_thin", Int64),
    _required("changed_seq", Int64),
    _required("frozen_at_ms", Int64),
    _required("upto_seq", Int64),
    _required("entries", Int64),
    _required("groups", Int64),
    Index("archived_windows_by_end", "board", "end_ms", "window"),
    _partial("archived_windows_at_work", "board", "window", where=ARCHIVE_WORK),
    _partial("archived_windows_to_thin", "expires_at_ms", where="stage = 'frozen'"),
    _partial("archived_windows_to_forget", "end_ms", where=ARCHIVE_KEPT),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

archived_entries = Table(
    "archived_entries",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    Column("rank", Int64, primary_key=True, autoincrement=False),
    _required("sparse_rank", Int64),
    _required("dense_rank", Int64),
    _required("player", Text),
    _required("score", Int64),
    _required("achieved_at_ms", Int64),
    _required("submission_id", Text),
    _required("order_value", Int64),
    _required("member", Text),
    Index("archived_entries_of_player", "board", "window", "revision", "player", unique=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

baselines = Table(
    "baselines",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("count", Int64),
    _required("total", Text),
    _required("total_of_squares", Text),
    _required("recent", Text),
    Column("lowest", Int64),
    Column("highest", Int64),
    _required("seq", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("kind", Text),
    _required("submission_id", Text),
    _required("board", Text),
    _required("player", Text),
    _required("due_at_ms", Int64),
    _required("priority", Int64),
    _required("handed_out", Int64),
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

progress = Table(
    "progress",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    _required("seq", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

board_counts = Table(
    "board_counts",
    metadata,
    Column("board", Text, primary_key=True),
    _required("attempts", Int64),
    _required("promoted", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

achievements = Table(
    "achievements",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("rank", Int64),
    _required("submission_id", Text),
    _required("seq", Int64),
    _required("at_ms", Int64),
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
    _required("sketch", LargeBinary),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    _required("url", Text),
    _required("secret", LargeBinary),
    _required("boards", Text),
    _required("types", Text),
    _required("created_at_ms", Int64),
    _required("failures", Int64),
    Column("disabled_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    Column("event_id", Text, primary_key=True),
    _required("type", Text),
    _required("body", LargeBinary),
    _required("created_at_ms", Int64),
    _required("due_at_ms", Int64),
    _required("tries", Int64),
    _required("state", Text),
    _required("outcome", Text),
    Index("deliveries_by_state", "state", "webhook_id", "due_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

seals = Table(
    "seals",
    metadata,
    Column("first_seq", Int64, primary_key=True, autoincrement=False),
    _required("last_seq", Int64),
    _required("root", LargeBinary),
    _required("previous", LargeBinary),
    _required("created_at_ms", Int64),
    _required("key_id", Text),
    _required("signature", LargeBinary),
    _required("leaves", LargeBinary),
    sqlite_strict=True,
)


build_changes = Table(
    "build_changes",
    metadata,
    Column("board", Text, primary_key=True),
    Column("build", Text, primary_key=True),
    Column("revision", Int64, primary_key=True, autoincrement=False),
    _required("status", Text),
    _required("actor", Text),
    _required("reason", Text),
    _required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)


# A row may have 8 KiB of metadata and parameters, so the primary key is an index beside the rows.
boards = Table(
    "boards",
    metadata,
    Column("board", Text, primary_key=True),
    _required("lane", Int64),
    _required("family", Text),
    _required("title", Text),
    _required("metadata", Text),
    _required("parameters", LargeBinary),
    Column("asset", LargeBinary),
    Column("bounds", Text),
    _required("state", Text),
    Column("opens_at_ms", Int64),
    Column("closes_at_ms", Int64),
    _required("opened_at_ms", Int64),
    _required("opened_by", Text),
    _required("opened_seq", Int64),
    _required("version", Int64),
    _required("seq", Int64),
    _required("plays", Int64),
    Index("boards_by_name", "family", "state", "board"),
    Index("boards_by_age", "family", "state", "opened_seq"),
    Index("boards_by_plays", "family", "state", "plays", "board"),
    _partial("boards_of_asset", "asset", where="asset IS NOT NULL"),
    _partial("boards_to_close", "lane", "closes_at_ms", where="state = 'open' AND closes_at_ms IS NOT NULL"),
    sqlite_strict=True,
)

board_fields = Table(
    "board_fields",
    metadata,
    Column("board", Text, primary_key=True),
    Column("field", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    _required("family", Text),
    _required("opened_seq", Int64),
    _required("plays", Int64),
    Index("board_fields_by_name", "family", "field", "value", "board"),
    Index("board_fields_by_age", "family", "field", "value", "opened_seq"),
    Index("board_fields_by_plays", "family", "field", "value", "plays", "board"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

family_openings = Table(
    "family_openings",
    metadata,
    Column("family", Text, primary_key=True),
    _required("boards", Int64),
    _required("whole_at_us", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

board_duties = Table(
    "board_duties",
    metadata,
    Column("duty", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("lane", Int64),
    _required("due_at_ms", Int64),
    _required("first_seq", Int64),
    _required("last_seq", Int64),
    Index("board_duties_due", "duty", "due_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

stewards = Table(
    "stewards",
    metadata,
    Column("steward", Text, primary_key=True),
    _required("expires_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    _required("owner", Text),
    _required("epoch", Int64),
    Index("leases_of_owner", "owner"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)


def is_known(version: str) -> bool:
    """Return whether this program can read a version, or upgrade it."""
    return version.isdecimal() and len(version) == len(SCHEMA_VERSION) and "0000" < version <= SCHEMA_VERSION


def is_in(state: State) -> ColumnElement[bool]:
    """Return the condition that a submission is in a state. A bound state would not use the state's index."""
    return submissions.c.state == literal_column(f"'{state.value}'")
