"""The third schema: boards of families are rows, and stewards divide their duties by leases.

A board's row is never deleted, and what it was opened with changes only if the name of a deleted board is opened
again. Events of the life of a board have no submission; an index finds those of one board. A submission gains the
digest of the content of the board that it was played on, which is one of its facts.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, text
from sqlalchemy import Text as PlainText

revision: Final = "0003"
down_revision: Final = "0002"

metadata = MetaData()

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")


def _required(name: str, kind: object, **options: object) -> Column[object]:
    return Column(name, kind, nullable=False, **options)  # type: ignore[arg-type]


def _partial(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


Table(
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

Table(
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

Table(
    "family_openings",
    metadata,
    Column("family", Text, primary_key=True),
    _required("boards", Int64),
    _required("whole_at_us", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
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

Table(
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

Table(
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

Table(
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

Table(
    "stewards",
    metadata,
    Column("steward", Text, primary_key=True),
    _required("expires_at_ms", Int64),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    _required("owner", Text),
    _required("epoch", Int64),
    Index("leases_of_owner", "owner"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

_IS_OF_BOARD: Final = text("player = ''")
_IS_OF_PLAYER: Final = text("player != ''")
_VERIFIED: Final = text("to_state = 'promoted' AND reason = 'verified'")
_ARCHIVE_WORK: Final = text("changed_seq > 0 OR stage IN ('folding', 'copying', 'sweeping', 'forgetting')")
_ARCHIVE_KEPT: Final = text("stage NOT IN ('forgetting', 'forgotten')")
_STANDS_IN_FAMILY: Final = text("score IS NOT NULL AND board LIKE '%.%'")

_OPENING: Final = ("parameters", "asset", "opened_at_ms", "opened_by", "opened_seq")

_FACTS: Final = (
    *("seq", "submission_id", "board", "player", "credential", "nonce", "content_digest", "build", "seed"),
    *("issued_at_ms", "received_at_ms", "achieved_at_ms", "score", "ticks", "stats", "details"),
    *("recording_digest", "simulator", "runs_opened", "runs_submitted", "findings", "initial_state"),
    "board_content",
)
"""The columns of a submission that never change."""

_REFUSED: Final[tuple[tuple[str, str, str, tuple[str, ...], str], ...]] = (
    ("submissions_facts_no_update", "submissions", "UPDATE", _FACTS, ""),
    ("boards_facts_no_update", "boards", "UPDATE", ("board", "lane", "family"), ""),
    ("boards_opening_no_update", "boards", "UPDATE", _OPENING, "OLD.state <> 'deleted'"),
    ("boards_no_delete", "boards", "DELETE", (), ""),
)

_UPDATES: Final = {
    "boards": "title, metadata, parameters, asset, bounds, state, opens_at_ms, closes_at_ms, opened_at_ms, "
    "opened_by, opened_seq, version, seq, plays",
    "board_fields": "opened_seq, plays",
    "family_openings": "boards, whole_at_us",
    "board_duties": "due_at_ms, last_seq",
    "rollup_borders": "rule, borders",
    "rollup_changes": "seq, after",
    "rollup_points": "points, achieved_at_ms, achieved_seq, submission_id",
    "stewards": "expires_at_ms",
    "leases": "owner, epoch",
}
"""The columns that the application may change."""

_DELETED: Final = ("board_fields", "board_duties", "rollup_changes", "rollup_points", "stewards")
"""The tables from which the application may take rows away."""


def upgrade() -> None:
    """Add the tables, the indexes of what belongs to families, and those that find what is due."""
    metadata.create_all(op.get_bind(), checkfirst=False)
    _add_index("events_of_board", "events", ["board", "seq"], _IS_OF_BOARD)
    _add_index("events_of_players", "events", ["board", "seq"], _IS_OF_PLAYER)
    _add_index("standings_of_player", "standings", ["player", "window", "board"], _STANDS_IN_FAMILY)
    _add_index("events_verified", "events", ["board", "seq"], _VERIFIED)
    _add_index("archived_windows_at_work", "archived_windows", ["board", "window"], _ARCHIVE_WORK)
    _add_index("archived_windows_to_thin", "archived_windows", ["expires_at_ms"], text("stage = 'frozen'"))
    _add_index("archived_windows_to_forget", "archived_windows", ["end_ms"], _ARCHIVE_KEPT)
    op.add_column("submissions", Column("board_content", LargeBinary))
    op.add_column("server_operations", Column("answers", Text))
    is_postgres = op.get_context().dialect.name == "postgresql"
    _run("DROP TRIGGER submissions_facts_no_update" + (" ON submissions" if is_postgres else ""))
    for trigger, table, action, columns, when in _REFUSED:
        of = f" OF {', '.join(columns)}" if columns else ""
        if is_postgres:
            only = f"WHEN ({when}) " if when else ""
            _run(
                f"CREATE TRIGGER {trigger} BEFORE {action}{of} ON {table} "
                f"FOR EACH ROW {only}EXECUTE FUNCTION refuse_change('{table}')"
            )
        else:
            only = f"WHEN {when} " if when else ""
            op.execute(
                f"CREATE TRIGGER IF NOT EXISTS {trigger} BEFORE {action}{of} ON {table} {only}"
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    if is_postgres:
        _grant()


def _add_index(name: str, table: str, columns: list[str], where: object) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def _grant() -> None:
    _run(
        "CREATE TRIGGER boards_no_truncate BEFORE TRUNCATE ON boards EXECUTE FUNCTION refuse_change('boards')"
    )
    for table in metadata.tables:
        _run(f"GRANT SELECT, INSERT ON {table} TO scoregate_app")
    for table, columns in _UPDATES.items():
        _run(f"GRANT UPDATE ({columns}) ON {table} TO scoregate_app")
    _run(f"GRANT DELETE ON {', '.join(_DELETED)} TO scoregate_app")


def _run(statement: str) -> None:
    """Run a statement as it stands, because colons in it are no parameters."""
    op.get_bind().exec_driver_sql(statement)
