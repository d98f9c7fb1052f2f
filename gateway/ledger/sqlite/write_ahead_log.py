"""Keeps the write-ahead log of an SQLite file short.

SQLite copies the log into the file after some commits, but begins it anew only at a moment at which nobody
reads from it (sqlite.org/wal.html, "Avoiding Excessively Large WAL Files"). With a few processes that read
without pause there is no such moment, and the log grows as long as anything is written.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Length at which a writer empties the log. SQLite begins it anew at 4 MB, if it can."""

LOOK_S: Final = 1.0
"""Pause between two looks at the length."""

PATIENCE_MS: Final = 500
"""How long other writes wait for the reads that are under way. Later reads need no log by then."""

AGAIN_S: Final = 10.0
"""Pause after an attempt for which a read took too long."""


class WriteAheadLog:
    """The log of the file that a writer's connection has open."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._file = path.with_name(f"{path.name}-wal")
        self._next_s = 0.0

    def shorten(self) -> None:
        """Empty the log if it is long, outside any transaction. A long read puts that off."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        with suppress(OSError, sqlite3.Error):  # a failing disk is the next commit's to report
            if self._file.stat().st_size > LIMIT_BYTES and not self._emptied():
                self._next_s = now_s + AGAIN_S

    def _emptied(self) -> bool:
        self._connection.execute(f"PRAGMA busy_timeout={PATIENCE_MS}")
        try:
            [is_busy, *_] = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._connection.execute("PRAGMA busy_timeout=0")  # `SqliteWriter` waits by itself
        return not is_busy
