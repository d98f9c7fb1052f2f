"""The mark of a file whose ledger PostgreSQL takes over. It stands in place of the schema's version.

No Scoregate reads such a version, so no part begins on the file: neither one that waited for the end of the
copy nor one that is started later without the address of the database.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from gateway.runtime.clock import rfc3339, wall_clock

_MARK: Final = re.compile(r"(?P<version>\d{4}) (?P<stage>copying|copied) (?P<date>\d{4}-\d\d-\d\d)")


class CopyMark(NamedTuple):
    """The version of the file's schema, when it was marked, and whether the copy is known to be committed."""

    version: str
    date: str
    is_whole: bool

    def sentence(self, path: Path) -> str:
        """Return why nothing begins on the file, and what to do."""
        if self.is_whole:
            return f"{path}: this ledger was copied to PostgreSQL on {self.date}; set SCOREGATE_LEDGER_URL"
        return (
            f"{path}: a copy of this ledger to PostgreSQL was interrupted on {self.date}, and may be whole; "
            "repeat `scoregate ledger copy`, which finishes it"
        )


def mark_in(version: str) -> CopyMark | None:
    """Return the mark that stands where a file has its version, None if that is a version."""
    match = _MARK.fullmatch(version)
    return match and CopyMark(match["version"], match["date"], match["stage"] == "copied")


def mark(connection: sqlite3.Connection, version: str, *, is_whole: bool) -> None:
    """Mark the file, and commit. Raises sqlite3.Error."""
    text = f"{version} {'copied' if is_whole else 'copying'} {rfc3339(wall_clock())[:10]}"
    connection.execute("UPDATE alembic_version SET version_num = ?", (text,))
    if connection.in_transaction:
        connection.execute("COMMIT")
