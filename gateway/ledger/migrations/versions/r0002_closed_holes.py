"""The second schema: recordings may end, names may be unique, and joins and leaves of boards are stored.

A trigger lets a recording be deleted only once its end is stored, and never while a submission that counts,
or may yet count, names it.
"""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, text
from sqlalchemy import Text as PlainText

revision: Final = "0002"
down_revision: Final = "0001"

Int64 = BigInteger().with_variant(Integer, "sqlite")
Text = PlainText().with_variant(PlainText(collation="C"), "postgresql")

_HAS_DIGEST: Final = text("recording_digest IS NOT NULL")

_ENDED: Final = "SELECT 1 FROM recording_expiries WHERE digest = OLD.digest"
_WANTED: Final = """
        SELECT 1 FROM submissions
        WHERE recording_digest = OLD.digest AND state IN ('received', 'pending', 'held', 'promoted')
    """

_SQLITE_TRIGGERS: Final = (
    f"""
CREATE TRIGGER recordings_no_delete BEFORE DELETE ON recordings
WHEN NOT EXISTS ({_ENDED})
    OR EXISTS ({_WANTED})
BEGIN SELECT RAISE(ABORT, 'recordings is append-only'); END
""".strip(),
    """
CREATE TRIGGER IF NOT EXISTS recording_expiries_facts_no_update
BEFORE UPDATE OF digest, size_bytes ON recording_expiries
BEGIN SELECT RAISE(ABORT, 'recording_expiries is append-only'); END
""".strip(),
    """
CREATE TRIGGER IF NOT EXISTS recording_expiries_no_delete BEFORE DELETE ON recording_expiries
BEGIN SELECT RAISE(ABORT, 'recording_expiries is append-only'); END
""".strip(),
)

_POSTGRES: Final = (
    f"""
CREATE FUNCTION refuse_needed_recording() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS ({_ENDED}) OR EXISTS ({_WANTED}) THEN
        RAISE EXCEPTION 'recordings is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$
""",
    "DROP TRIGGER recordings_no_delete ON recordings",
    """
CREATE TRIGGER recordings_no_delete BEFORE DELETE ON recordings
FOR EACH ROW EXECUTE FUNCTION refuse_needed_recording()
""",
    """
CREATE TRIGGER recording_expiries_facts_no_update BEFORE UPDATE OF digest, size_bytes ON recording_expiries
FOR EACH ROW EXECUTE FUNCTION refuse_change('recording_expiries')
""",
    """
CREATE TRIGGER recording_expiries_no_delete BEFORE DELETE ON recording_expiries
FOR EACH ROW EXECUTE FUNCTION refuse_change('recording_expiries')
""",
    """
CREATE TRIGGER recording_expiries_no_truncate BEFORE TRUNCATE ON recording_expiries
EXECUTE FUNCTION refuse_change('recording_expiries')
""",
    "GRANT SELECT, INSERT ON recording_expiries, taken_names, join_changes TO scoregate_app",
    "GRANT UPDATE (expired_at_ms, first_seq) ON recording_expiries TO scoregate_app",
    "GRANT DELETE ON recordings, join_changes TO scoregate_app",
)


def upgrade() -> None:
    """Add the tables and the index, and allow deleting a recording whose end is stored."""
    _add_expiries()
    _add_names()
    _add_join_changes()
    if op.get_context().dialect.name == "postgresql":
        for statement in _POSTGRES:
            op.get_bind().exec_driver_sql(statement)
        return
    op.execute("DROP TRIGGER recordings_no_delete")
    for statement in _SQLITE_TRIGGERS:
        op.execute(statement)


def _add_expiries() -> None:
    op.create_index(
        "submissions_of_recording",
        "submissions",
        ["recording_digest"],
        sqlite_where=_HAS_DIGEST,
        postgresql_where=_HAS_DIGEST,
    )
    op.create_table(
        "recording_expiries",
        Column("digest", LargeBinary, primary_key=True),
        Column("size_bytes", Int64, nullable=False),
        Column("first_seq", Int64, nullable=False),
        Column("expired_at_ms", Int64, nullable=False),
        sqlite_strict=True,
    )


def _add_names() -> None:
    op.create_table(
        "taken_names",
        Column("name_key", Text, primary_key=True),
        Column("player", Text, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _add_join_changes() -> None:
    """Begin the history of joins with each player's last change, which is all that was stored."""
    op.create_table(
        "join_changes",
        Column("board", Text, primary_key=True),
        Column("player", Text, primary_key=True),
        Column("revision", Int64, primary_key=True, autoincrement=False),
        Column("is_joined", Int64, nullable=False),
        Column("at_ms", Int64, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO join_changes (board, player, revision, is_joined, at_ms) "
        "SELECT board, player, 1, is_joined, at_ms FROM joins"
    )
