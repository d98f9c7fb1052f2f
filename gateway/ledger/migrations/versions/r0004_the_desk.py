"""The fourth schema: the moderators' desk.

Indexes find the submissions of a player, and the events that a moderator caused. Moderators have accounts, whose
changes are events; their sessions, invitations and tokens come and go, and are stored as digests. Submissions
that wait for a moderator are cases, with a row for each that is held already. Decisions leave labels.
Players can be banned, renamed, and found by their
names; they are known again by identities, and their tokens can be ended. Batches decide on
many submissions; an index finds those that are revoked.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, text
from sqlalchemy import Text as PlainText
from sqlalchemy.engine import Connection

from gateway.ledger.name_keys import search_key

revision: Final = "0004"
down_revision: Final = "0003"

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


def _partial(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


Table(
    "moderators",
    metadata,
    Column("moderator", Text, primary_key=True),
    _required("players", Text),
    Column("password", Text),
    Column("issuer", Text),
    Column("subject", Text),
    Column("second_factor", LargeBinary),
    Column("second_factor_step", Int64),
    _required("created_at_ms", Int64),
    Column("disabled_at_ms", Int64),
    _required("version", Int64),
    Index("moderators_by_subject", "issuer", "subject", unique=True),
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
    _required("proven_at_ms", Int64),
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

Table(
    "labels",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("submission_id", Text),
    _required("board", Text),
    _required("label", Text),
    _required("build", Text),
    _required("moderator", Text),
    _required("reason", Text),
    _required("code", Text),
    Column("is_cheat", Int64),
    _required("findings", Text),
    _required("opened_at_ms", Int64),
    _required("decided_at_ms", Int64),
    Column("overturned_by", Int64),
    Column("known_seq", Int64),
    Index("labels_by_time", "decided_at_ms", "seq"),
    Index("labels_of_label", "label", "decided_at_ms", "seq"),
    Index("labels_of_board", "board", "decided_at_ms", "seq"),
    sqlite_strict=True,
)

Table(
    "cases",
    metadata,
    Column("submission_id", Text, primary_key=True),
    _required("seq", Int64),
    _required("board", Text),
    _required("label", Text),
    _required("player", Text),
    _required("build", Text),
    _required("kind", Text),
    _required("reason", Text),
    _required("harm", Int64),
    _required("opened_at_ms", Int64),
    _required("order_key", Int64),
    _required("claimed_by", Text),
    _required("claimed_until_ms", Int64),
    _required("waits_until_ms", Int64),
    _required("not_for", Text),
    _required("cannot_tell", Int64),
    _required("needs_senior", Int64),
    _required("known_seq", Int64),
    Index("cases_in_order", "order_key", "seq"),
    Index("cases_of_label", "label", "order_key", "seq"),
    Index("cases_of_board", "board", "order_key", "seq"),
    Index("cases_of_player", "player", "order_key", "seq"),
    Index("cases_by_age", "label", "opened_at_ms"),
    _partial("cases_unassessed", "seq", where="harm < 0"),
    _partial("cases_to_check", "submission_id", where="kind = 'check'"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "case_counts",
    metadata,
    Column("label", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    _required("cases", Int64),
    _required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "case_targets",
    metadata,
    Column("submission_id", Text, primary_key=True),
    _required("board", Text),
    _required("late_at_ms", Int64),
    _required("is_late", Int64),
    _partial("case_targets_ahead", "late_at_ms", where="is_late = 0"),
    _partial("case_targets_late", "board", where="is_late = 1"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "late_queues",
    metadata,
    Column("board", Text, primary_key=True),
    _required("label", Text),
    _required("since_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "queue_views",
    metadata,
    Column("moderator", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    _required("filters", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "case_passes",
    metadata,
    Column("submission_id", Text, primary_key=True),
    Column("moderator", Text, primary_key=True),
    _required("until_ms", Int64),
    _required("could_not_tell", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "player_addresses",
    metadata,
    Column("player", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    _required("seen_at_ms", Int64),
    Index("player_addresses_by_address", "address", "seen_at_ms", "player"),
    Index("player_addresses_by_age", "seen_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "renames",
    metadata,
    Column("player", Text, primary_key=True),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("was", Text),
    _required("name", Text),
    _required("code", Text),
    _required("note", Text),
    _required("actor", Text),
    _required("at_ms", Int64),
    Column("undone_at_ms", Int64),
    _required("undone_by", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "bans",
    metadata,
    Column("ban_id", Text, primary_key=True),
    _required("player", Text),
    _required("scope", Text),
    _required("is_shadow", Int64),
    _required("code", Text),
    _required("note", Text),
    _required("message", Text),
    _required("actor", Text),
    _required("began_at_ms", Int64),
    Column("until_ms", Int64),
    Column("lifted_at_ms", Int64),
    _required("lifted_by", Text),
    _required("changed_seq", Int64),
    _required("changed_count", Int64),
    Column("seen_seq", Int64),
    Column("again_ms", Int64),
    Index("bans_of_player", "player", "changed_seq"),
    Index("bans_by_change", "changed_seq"),
    _partial("bans_to_end", "until_ms", "ban_id", where="lifted_at_ms IS NULL AND until_ms IS NOT NULL"),
    _partial("bans_at_work", "changed_seq", where="seen_seq IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_LABELS: Final = {
    "sqlite": "substr(s.board, 1, instr(s.board || '.', '.') - 1)",
    "postgresql": "split_part(s.board, '.', 1)",
}
"""The name of a board's policy file: what comes before the first dot."""

_OPEN_CASES: Final = """
INSERT INTO cases (
    submission_id, seq, board, label, player, build, kind, reason, harm, opened_at_ms, order_key, claimed_by,
    claimed_until_ms, waits_until_ms, not_for, cannot_tell, needs_senior, known_seq
)
SELECT
    s.submission_id, s.seq, s.board, {label}, s.player, s.build, 'held', s.reason, -1, e.at_ms, e.at_ms, '',
    0, 0, '', 0, 0, 0
FROM submissions s
JOIN events e ON e.seq = (SELECT max(seq) FROM events WHERE submission_id = s.submission_id)
WHERE s.state = 'held'
"""

_COUNT_CASES: Final = (
    "INSERT INTO case_counts (label, reason, cases, version) "
    "SELECT label, reason, count(*), 0 FROM cases GROUP BY label, reason"
)

Table(
    "batches",
    metadata,
    Column("batch_id", Text, primary_key=True),
    _required("actor", Text),
    _required("scopes", Text),
    _required("selection", Text),
    _required("action", Text),
    _required("reason", Text),
    _required("detail", Text),
    _required("state", Text),
    _required("version", Int64),
    _required("begin_seq", Int64),
    _required("created_at_ms", Int64),
    _required("changed_at_ms", Int64),
    Column("due_at_ms", Int64),
    _required("place", Text),
    _required("looked_at", Int64),
    _required("items", Int64),
    _required("preview", Text),
    _required("outcomes", Text),
    _required("left_out", Text),
    _required("decided_by", Text),
    _required("reversed_by", Text),
    Index("batches_in_order", "begin_seq", "batch_id"),
    _partial("batches_due", "due_at_ms", "batch_id", where="due_at_ms IS NOT NULL"),
    _partial("batches_unfinished", "actor", where="due_at_ms IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "batch_items",
    metadata,
    Column("batch_id", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("submission_id", Text),
    _required("player", Text),
    _required("newest_event", Int64),
    _required("outcome", Text),
    Column("decided_seq", Int64),
    _required("why", Text),
    _required("detail", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "player_identities",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("subject_digest", LargeBinary, primary_key=True),
    _required("player", Text),
    _required("added_at_ms", Int64),
    Index("player_identities_of_player", "player", "added_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "used_credentials",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("expires_at_ms", Int64),
    Index("used_credentials_by_expiry", "expires_at_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "token_endings",
    metadata,
    Column("player", Text, primary_key=True),
    _required("generation", Int64),
    _required("ended_at_ms", Int64),
    _required("changed_seq", Int64),
    Index("token_endings_by_change", "changed_seq"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_PAGE: Final = 1_000
_NAMES: Final = text("SELECT player, name FROM players WHERE player > :after ORDER BY player LIMIT :count")
_KEY: Final = text("UPDATE players SET search_key = :key WHERE player = :player")

_BY_MODERATOR: Final = text("actor LIKE 'moderator:%'")
_IS_BANNED: Final = text("state = 'revoked' AND reason = 'banned'")
_BANNED_INDEXES: Final = {
    "": ["board", "player", "seq"],
    "_of_player": ["player", "board", "achieved_at_ms", "score"],
    "_by_score": ["player", "board", "score", "achieved_at_ms"],
}

Table(
    "player_merges",
    metadata,
    Column("merge_id", Text, primary_key=True),
    _required("source", Text),
    _required("target", Text),
    _required("actor", Text),
    _required("began_at_ms", Int64),
    Column("undone_at_ms", Int64),
    _required("undone_by", Text),
    _required("changed_seq", Int64),
    _required("changed_count", Int64),
    Column("seen_seq", Int64),
    Column("again_ms", Int64),
    _required("friends", Text),
    Index(
        "player_merges_in_force",
        "source",
        unique=True,
        sqlite_where=text("undone_at_ms IS NULL"),
        postgresql_where=text("undone_at_ms IS NULL"),
    ),
    Index("player_merges_of_source", "source", "changed_seq"),
    Index("player_merges_of_target", "target", "changed_seq"),
    _partial("player_merges_at_work", "changed_seq", where="seen_seq IS NOT NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "erasures",
    metadata,
    Column("player", Text, primary_key=True),
    _required("actor", Text),
    _required("asked_at_ms", Int64),
    _required("due_at_ms", Int64),
    Column("begun_seq", Int64),
    _required("seen_seq", Int64),
    _required("rows_erased", Int64),
    Column("ended_at_ms", Int64),
    _partial("erasures_due", "due_at_ms", "player", where="ended_at_ms IS NULL"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "erased_rows",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("sealed", LargeBinary),
    _required("kept", LargeBinary),
    _required("by_seq", Int64),
    sqlite_strict=True,
)

_UPDATES: Final = {
    "batches": "state, version, changed_at_ms, due_at_ms, place, looked_at, items, preview, outcomes, "
    "left_out, decided_by, reversed_by",
    "batch_items": "outcome, decided_seq, why",
    "players": "name, search_key",
    "player_addresses": "seen_at_ms",
    "renames": "undone_at_ms, undone_by",
    "bans": "lifted_at_ms, lifted_by, changed_seq, changed_count, seen_seq, again_ms, note, message",
    "cases": "player, reason, harm, order_key, claimed_by, claimed_until_ms, waits_until_ms, not_for, cannot_tell, "
    "needs_senior",
    "case_counts": "cases, version",
    "case_targets": "late_at_ms, is_late",
    "queue_views": "filters",
    "case_passes": "until_ms, could_not_tell",
    "moderators": "players, password, issuer, subject, second_factor, second_factor_step, disabled_at_ms, "
    "version",
    "invitations": "digest, expires_at_ms",
    "moderator_sessions": "used_at_ms",
    "labels": "overturned_by",
    "token_endings": "generation, ended_at_ms, changed_seq",
    "player_merges": "undone_at_ms, undone_by, changed_seq, changed_count, seen_seq, again_ms, friends",
    "erasures": "begun_seq, seen_seq, rows_erased, ended_at_ms",
    "submissions": "player, played_by, details",
    "events": "detail",
    "outbox": "player",
}
"""The columns that the application may change."""

_DELETED: Final = (
    "player_identities",
    "taken_names",
    "used_credentials",
    "player_addresses",
    "batches",
    "batch_items",
    "cases",
    "case_passes",
    "queue_views",
    "case_targets",
    "late_queues",
    "moderator_grants",
    "invitations",
    "moderator_sessions",
    "api_tokens",
    "erasures",
    "renames",
    "taken_names",
    "memberships",
)
"""The tables from which the application may take rows away."""


_OF_PLAYER: Final = "submission_id = '' AND player <> '' AND actor <> 'rollup' AND actor <> 'merge'"

_EVENT: Final = (
    "seq, submission_id, board, player, from_state, to_state, actor, reason, policy, rules_version, at_ms"
)
_FACTS: Final = (
    "seq, submission_id, board, credential, nonce, content_digest, build, seed, issued_at_ms, received_at_ms, "
    "achieved_at_ms, score, ticks, stats, recording_digest, simulator, runs_opened, runs_submitted, findings, "
    "initial_state, board_content"
)
_IS_ANOTHER: Final = "coalesce(NEW.played_by, NEW.player) <> coalesce(OLD.played_by, OLD.player)"
_IS_NO_ERASURE: Final = "NOT EXISTS (SELECT 1 FROM erased_rows WHERE seq = OLD.seq)"

_REFUSED: Final = (
    ("events_no_update", "events", f"UPDATE OF {_EVENT}", ""),
    ("events_detail_no_update", "events", "UPDATE OF detail", _IS_NO_ERASURE),
    ("submissions_facts_no_update", "submissions", f"UPDATE OF {_FACTS}", ""),
    ("submissions_played_by_no_update", "submissions", "UPDATE OF player, played_by", _IS_ANOTHER),
    ("submissions_details_no_update", "submissions", "UPDATE OF details", _IS_NO_ERASURE),
    ("erased_rows_no_update", "erased_rows", "UPDATE", ""),
    ("erased_rows_no_delete", "erased_rows", "DELETE", ""),
)
"""What may not be changed; with a condition, what may not be while it holds."""

_REFUSE_UNERASED: Final = """
CREATE FUNCTION refuse_unerased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM erased_rows WHERE seq = OLD.seq) THEN
        RAISE EXCEPTION '% is append-only', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$
"""


def upgrade() -> None:
    """Add the tables of moderators and cases, and the indexes of what they look for."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    is_revoked = text("state = 'revoked'")
    op.create_index(
        "submissions_revoked",
        "submissions",
        ["board", "seq"],
        sqlite_where=is_revoked,
        postgresql_where=is_revoked,
    )
    op.create_index("submissions_of_player", "submissions", ["player", "seq"])
    op.add_column("submissions", Column("played_by", Text))
    is_moved = text("played_by IS NOT NULL")
    op.create_index(
        "submissions_moved",
        "submissions",
        ["player", "played_by", "seq"],
        sqlite_where=is_moved,
        postgresql_where=is_moved,
    )
    op.create_index("friends_by_friend", "friends", ["friend", "player"])
    op.create_index("taken_names_of_player", "taken_names", ["player"])
    op.create_index("memberships_of_player", "memberships", ["player", "board"])
    op.create_index("joins_of_player", "joins", ["player", "board"])
    of_player = text(_OF_PLAYER)
    op.create_index(
        "events_of_player",
        "events",
        ["player", "seq"],
        sqlite_where=of_player,
        postgresql_where=of_player,
    )
    op.add_column("players", Column("search_key", Text))
    _key_names(op.get_bind())
    op.create_index("players_by_name", "players", ["search_key", "player"])
    _add_index("events_by_moderator", ["actor", "seq"])
    _add_index("events_by_moderators", ["seq"])
    for suffix, columns in _BANNED_INDEXES.items():
        op.create_index(
            f"submissions_banned{suffix}",
            "submissions",
            columns,
            sqlite_where=_IS_BANNED,
            postgresql_where=_IS_BANNED,
        )
    dialect = op.get_context().dialect.name
    _refuse_changes(is_postgres=dialect == "postgresql")
    op.get_bind().exec_driver_sql(_OPEN_CASES.format(label=_LABELS[dialect]))
    op.get_bind().exec_driver_sql(_COUNT_CASES)
    if dialect == "postgresql":
        _grant()


def _refuse_changes(*, is_postgres: bool) -> None:
    """Allow moving a submission to another player, and erasing texts whose leaves are noted; nothing else."""
    run = op.get_bind().exec_driver_sql
    if is_postgres:
        run(_REFUSE_UNERASED)
        run(
            "CREATE TRIGGER erased_rows_no_truncate BEFORE TRUNCATE ON erased_rows "
            "EXECUTE FUNCTION refuse_change('erased_rows')"
        )
    for trigger, table in (("events_no_update", "events"), ("submissions_facts_no_update", "submissions")):
        run(f"DROP TRIGGER {trigger}" + (f" ON {table}" if is_postgres else ""))
    for trigger, table, action, when in _REFUSED:
        begin = f"{trigger} BEFORE {action} ON {table}"
        if is_postgres:
            function = "refuse_unerased" if when == _IS_NO_ERASURE else "refuse_change"
            only = f"WHEN ({when}) " if when == _IS_ANOTHER else ""
            run(f"CREATE TRIGGER {begin} FOR EACH ROW {only}EXECUTE FUNCTION {function}('{table}')")
        else:
            only = f"WHEN {when} " if when else ""
            refusal = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            run(f"CREATE TRIGGER IF NOT EXISTS {begin} {only}{refusal}")


def _key_names(connection: Connection) -> None:
    """Store the key of each name, a page of players at a time."""
    after = ""
    while page := connection.execute(_NAMES, {"after": after, "count": _PAGE}).all():
        connection.execute(_KEY, [{"key": search_key(name), "player": player} for player, name in page])
        after = page[-1][0]


def _add_index(name: str, columns: list[str]) -> None:
    op.create_index(name, "events", columns, sqlite_where=_BY_MODERATOR, postgresql_where=_BY_MODERATOR)


def _grant() -> None:
    for table in metadata.tables:
        op.execute(f"GRANT SELECT, INSERT ON {table} TO scoregate_app")
    for table, columns in _UPDATES.items():
        op.execute(f"GRANT UPDATE ({columns}) ON {table} TO scoregate_app")
    op.execute(f"GRANT DELETE ON {', '.join(_DELETED)} TO scoregate_app")
