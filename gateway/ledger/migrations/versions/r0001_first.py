"""The first schema.

On PostgreSQL `events` is partitioned by month, a primary key must then have the partition's key in it, and the role
`scoregate_app` gets what the parts need and no more: nothing of it can change or remove what is append-only.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    text,
)
from sqlalchemy import Text as PlainText

revision: Final = "0001"
down_revision: Final = None

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


def _index_of_state(state: str, *columns: str, suffix: str = "") -> Index:
    """An index of the submissions in one state alone: what is appended then costs the others nothing."""
    where = text(f"state = '{state}'")
    return Index(f"submissions_{state}{suffix}", *columns, sqlite_where=where, postgresql_where=where)


Table(
    "players",
    metadata,
    Column("player", Text, primary_key=True),
    _required("name", Text),
    _required("created_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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
    Index("server_operations_of_nonce", "credential", "nonce"),
    Index("server_operations_of_slot", "board", "player"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "slot_versions",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("version", Int64),
    _required("removed_version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "recordings",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    _required("size_bytes", Int64),
    Column("body", LargeBinary),
    _required("first_seq", Int64),
    sqlite_strict=True,
)

Table(
    "commitments",
    metadata,
    Column("seq", Int64, primary_key=True, autoincrement=False),
    _required("size_bytes", Int64),
    _required("reveal_ms", Int64),
    Column("asked_at_ms", Int64),
    Column("revealed_at_ms", Int64),
    sqlite_strict=True,
)

Table(
    "recording_bands",
    metadata,
    Column("board", Text, primary_key=True),
    Column("band", Int64, primary_key=True, autoincrement=False),
    Column("seq", Int64, primary_key=True, autoincrement=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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
    CheckConstraint(
        "score BETWEEN -9007199254740991 AND 9007199254740991", name="score_is_exact_as_a_double"
    ),
    _index_of_state("pending", "board", "seq"),
    _index_of_state("held", "board", "seq"),
    _index_of_state("promoted", "board", "player", "achieved_at_ms"),
    _index_of_state("promoted", "board", "build", "achieved_at_ms", suffix="_of_build"),
    _index_of_state("promoted", "board", "build", "score", suffix="_by_score"),
    sqlite_strict=True,
)

Table(
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
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "anchored_windows",
    metadata,
    Column("board", Text, primary_key=True),
    Column("window", Text, primary_key=True),
    _required("rule", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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

Table(
    "friends",
    metadata,
    Column("player", Text, primary_key=True),
    Column("friend", Text, primary_key=True),
    _required("at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "friend_lists",
    metadata,
    Column("player", Text, primary_key=True),
    _required("version", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "memberships",
    metadata,
    Column("board", Text, primary_key=True),
    Column("player", Text, primary_key=True),
    _required("version", Int64),
    _required("segments", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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

Table(
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

Table(
    "progress",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("board", Text, primary_key=True),
    _required("seq", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "board_counts",
    metadata,
    Column("board", Text, primary_key=True),
    _required("attempts", Int64),
    _required("promoted", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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

Table(
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

Table(
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

Table(
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


Table(
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


def _add_events(*, is_partitioned: bool) -> None:
    Table(
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
        Column("at_ms", Int64, nullable=False, primary_key=is_partitioned, autoincrement=False),
        Index("events_of_submission", "submission_id"),
        sqlite_strict=True,
        postgresql_partition_by="RANGE (at_ms)",
    )


_FACTS: Final = (
    "seq",
    "submission_id",
    "board",
    "player",
    "credential",
    "nonce",
    "content_digest",
    "build",
    "seed",
    "issued_at_ms",
    "received_at_ms",
    "achieved_at_ms",
    "score",
    "ticks",
    "stats",
    "details",
    "recording_digest",
    "simulator",
    "runs_opened",
    "runs_submitted",
    "findings",
    "initial_state",
)

_REFUSED: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    ("events_no_update", "UPDATE", "events", ()),
    ("events_no_delete", "DELETE", "events", ()),
    ("server_operations_no_update", "UPDATE", "server_operations", ()),
    ("server_operations_no_delete", "DELETE", "server_operations", ()),
    ("recordings_no_update", "UPDATE", "recordings", ()),
    ("recordings_no_delete", "DELETE", "recordings", ()),
    ("commitments_facts_no_update", "UPDATE", "commitments", ("seq", "size_bytes", "reveal_ms")),
    ("commitments_no_delete", "DELETE", "commitments", ()),
    ("submissions_facts_no_update", "UPDATE", "submissions", _FACTS),
    ("submissions_no_delete", "DELETE", "submissions", ()),
    ("achievements_no_update", "UPDATE", "achievements", ()),
    ("achievements_no_delete", "DELETE", "achievements", ()),
    ("seals_no_update", "UPDATE", "seals", ()),
    ("seals_no_delete", "DELETE", "seals", ()),
    ("build_changes_no_update", "UPDATE", "build_changes", ()),
    ("build_changes_no_delete", "DELETE", "build_changes", ()),
)

_UPDATES: Final = {
    "archived_windows": "policy, policy_digest, rule, stage, revision, building, is_thin, changed_seq, frozen_at_ms, upto_seq, "
    "entries, groups",
    "submissions": "state, reason, attempt, lease_until_ms",
    "baselines": "count, total, total_of_squares, recent, lowest, highest, seq",
    "friend_lists": "version",
    "joins": "is_joined, actor, at_ms",
    "memberships": "version, segments",
    "board_counts": "attempts, promoted",
    "deliveries": "due_at_ms, tries, state, outcome",
    "outbox": "kind, due_at_ms, priority, handed_out",
    "commitments": "asked_at_ms, revealed_at_ms",
    "progress": "seq",
    "rank_anchors": "ahead, groups_ahead",
    "rank_moves": "delta",
    "server_keys": "revoked_at_ms",
    "slot_versions": "version, removed_version",
    "standings": "score, achieved_at_ms, achieved_seq, submission_id, expires_at_ms, seq, order_value, member, rule",
    "trend_slots": "sketch",
    "webhooks": "failures, disabled_at_ms",
}
"""The columns that the application may change, of the tables where it may change anything."""

_DELETED: Final = (
    "outbox",
    "friends",
    "board_counts",
    "trend_slots",
    "webhooks",
    "deliveries",
    "standings",
    "archived_entries",
    "anchored_windows",
    "rank_anchors",
    "rank_moves",
    "recording_bands",
)
"""The tables from which the application may take rows away."""

_REFUSAL: Final = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$
"""

_PARTITIONS: Final = """
CREATE FUNCTION make_event_partitions(months_ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
-- This month and those ahead, in UTC. Events of a month without a partition are in events_default; if there are any, the
-- month stays there.
DECLARE
    month timestamp;
    partition text;
BEGIN
    FOR ahead IN 0..least(months_ahead, 120) LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead);
        partition := 'events_' || to_char(month, 'YYYYMM');
        CONTINUE WHEN to_regclass(format('{schema}.%I', partition)) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING ALL)', partition);
            EXECUTE format(
                'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                partition,
                (extract(epoch FROM month) * 1000)::bigint,
                (extract(epoch FROM month + interval '1 month') * 1000)::bigint
            );
            EXECUTE format(
                'CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change(''events'')',
                partition
            );
        EXCEPTION WHEN check_violation OR duplicate_table THEN
            NULL;
        END;
    END LOOP;
END $$
"""

_ROLE: Final = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'scoregate_app') THEN
        CREATE ROLE scoregate_app NOLOGIN;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'the role scoregate_app is missing and % may not create it: have an administrator run '
        'CREATE ROLE scoregate_app NOLOGIN', current_user;
END $$
"""


def upgrade() -> None:
    """Makes the tables and what keeps their history from being rewritten."""
    is_postgres = op.get_context().dialect.name == "postgresql"
    _add_events(is_partitioned=is_postgres)
    metadata.create_all(op.get_bind(), checkfirst=False)
    if is_postgres:
        _partition()
        _refuse_changes()
        _grant()
    else:
        for trigger, action, table, columns in _REFUSED:
            of = f" OF {', '.join(columns)}" if columns else ""
            op.execute(
                f"CREATE TRIGGER IF NOT EXISTS {trigger} BEFORE {action}{of} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )


def _partition() -> None:
    _run(_REFUSAL)
    op.execute("CREATE TABLE events_default PARTITION OF events DEFAULT")
    _run(_PARTITIONS.format(schema=_schema()))
    op.execute("SELECT make_event_partitions(12)")


def _refuse_changes() -> None:
    for trigger, action, table, columns in _REFUSED:
        of = f" OF {', '.join(columns)}" if columns else ""
        _run(
            f"CREATE TRIGGER {trigger} BEFORE {action}{of} ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION refuse_change('{table}')"
        )
    for table in ("events_default", *dict.fromkeys(table for _, _, table, _ in _REFUSED)):
        name = table.removesuffix("_default")
        _run(
            f"CREATE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {table} "
            f"EXECUTE FUNCTION refuse_change('{name}')"
        )


def _grant() -> None:
    _run(_ROLE)
    op.execute(f"GRANT USAGE ON SCHEMA {_schema()} TO scoregate_app")
    op.execute("GRANT SELECT ON alembic_version TO scoregate_app")
    for table in metadata.tables:
        op.execute(f"GRANT SELECT, INSERT ON {table} TO scoregate_app")
    for table, columns in _UPDATES.items():
        quoted = ", ".join(f'"{column}"' for column in columns.split(", "))
        op.execute(f"GRANT UPDATE ({quoted}) ON {table} TO scoregate_app")
    op.execute(f"GRANT DELETE ON {', '.join(_DELETED)} TO scoregate_app")
    op.execute("REVOKE ALL ON FUNCTION make_event_partitions FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION make_event_partitions TO scoregate_app")


def _schema() -> str:
    return str(op.get_bind().scalar(text("SELECT quote_ident(current_schema())")))


def _run(statement: str) -> None:
    """Runs a statement as it stands: colons in it are no parameters."""
    op.get_bind().exec_driver_sql(statement)
