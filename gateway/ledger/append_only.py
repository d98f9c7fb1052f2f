"""The triggers that keep the history in SQLite from being rewritten; migrations have PostgreSQL's."""

from __future__ import annotations

from typing import Final

from gateway.ledger.schema import events, submissions

_CHANGING: Final = frozenset(
    {"state", "reason", "attempt", "lease_until_ms", "player", "played_by", "details"}
)
_FACTS = tuple(column.name for column in submissions.columns if column.name not in _CHANGING)
_EVENT = tuple(column.name for column in events.columns if column.name != "detail")

_PLAYERS: Final = ("player", "played_by")
_IS_ANOTHER: Final = "coalesce(NEW.played_by, NEW.player) <> coalesce(OLD.played_by, OLD.player)"
"""A merge changes for whom a submission counts, and never who played it."""

_IS_NO_ERASURE: Final = "NOT EXISTS (SELECT 1 FROM erased_rows WHERE seq = OLD.seq)"
"""What an erasure takes away is noted first, with the leaf that was sealed."""

_OPENING: Final = ("parameters", "asset", "opened_at_ms", "opened_by", "opened_seq")
"""What a board is opened with. It may be set again only if a deleted board's name is opened again."""


def _refuse(name: str, action: str, table: str, columns: tuple[str, ...] = (), when: str = "") -> str:
    of = f" OF {', '.join(columns)}" if columns else ""
    only = f"WHEN {when} " if when else ""
    return (
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {action}{of} ON {table} {only}"
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    )


SQLITE_TRIGGERS: tuple[str, ...] = (
    _refuse("events_no_update", "UPDATE", "events", _EVENT),
    _refuse("events_detail_no_update", "UPDATE", "events", ("detail",), when=_IS_NO_ERASURE),
    _refuse("events_no_delete", "DELETE", "events"),
    _refuse("server_operations_no_update", "UPDATE", "server_operations"),
    _refuse("server_operations_no_delete", "DELETE", "server_operations"),
    _refuse("recordings_no_update", "UPDATE", "recordings"),
    """
CREATE TRIGGER recordings_no_delete BEFORE DELETE ON recordings
WHEN NOT EXISTS (SELECT 1 FROM recording_expiries WHERE digest = OLD.digest)
    OR EXISTS (
        SELECT 1 FROM submissions
        WHERE recording_digest = OLD.digest AND state IN ('received', 'pending', 'held', 'promoted')
    )
BEGIN SELECT RAISE(ABORT, 'recordings is append-only'); END
""".strip(),
    _refuse("recording_expiries_facts_no_update", "UPDATE", "recording_expiries", ("digest", "size_bytes")),
    _refuse("recording_expiries_no_delete", "DELETE", "recording_expiries"),
    _refuse("commitments_facts_no_update", "UPDATE", "commitments", ("seq", "size_bytes", "reveal_ms")),
    _refuse("commitments_no_delete", "DELETE", "commitments"),
    _refuse("submissions_facts_no_update", "UPDATE", "submissions", _FACTS),
    _refuse("submissions_played_by_no_update", "UPDATE", "submissions", _PLAYERS, when=_IS_ANOTHER),
    _refuse("submissions_details_no_update", "UPDATE", "submissions", ("details",), when=_IS_NO_ERASURE),
    _refuse("submissions_no_delete", "DELETE", "submissions"),
    _refuse("erased_rows_no_update", "UPDATE", "erased_rows"),
    _refuse("erased_rows_no_delete", "DELETE", "erased_rows"),
    _refuse("achievements_no_update", "UPDATE", "achievements"),
    _refuse("achievements_no_delete", "DELETE", "achievements"),
    _refuse("seals_no_update", "UPDATE", "seals"),
    _refuse("seals_no_delete", "DELETE", "seals"),
    _refuse("build_changes_no_update", "UPDATE", "build_changes"),
    _refuse("build_changes_no_delete", "DELETE", "build_changes"),
    _refuse("boards_facts_no_update", "UPDATE", "boards", ("board", "lane", "family")),
    _refuse("boards_opening_no_update", "UPDATE", "boards", _OPENING, when="OLD.state <> 'deleted'"),
    _refuse("boards_no_delete", "DELETE", "boards"),
)
"""Triggers that make tables append-only, so that even our own code cannot change what happened."""
