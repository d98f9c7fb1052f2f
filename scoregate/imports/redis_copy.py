"""Copies a sorted set of Redis into a file, so that its scores stay as they were during an import."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import redis

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore, whole_or_text

PAGE: Final = 1_000
"""Members that a step of ZSCAN asks for."""

_UPWARDS: Final = "SELECT member, score FROM scores ORDER BY score, member"
_DOWNWARDS: Final = "SELECT member, score FROM scores ORDER BY score DESC, member DESC"


def copy_sorted_set(url: str, key: str, copy: Path) -> int:
    """Copy a sorted set, unless it was copied before, and return the number of its members.

    Every member that stands in it from the beginning to the end is copied (ZSCAN). The copy is one
    transaction: cut off, it begins anew. Raises SettingsError if there is no such sorted set,
    or the copy is of another.
    """
    of = sha256(f"{url}\n{key}".encode()).hexdigest()
    with closing(sqlite3.connect(copy, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
            if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'copied'").fetchone():
                _fill(file, url, key, of)
                file.execute("COMMIT")
            if (of,) != file.execute("SELECT source FROM copied").fetchone():
                raise SettingsError(f"{copy} is of another sorted set; remove it to copy this one")
            return int(file.execute("SELECT count(*) FROM scores").fetchone()[0])
        except sqlite3.Error as error:
            raise SettingsError(f"{copy}: {error}") from None


def _fill(file: sqlite3.Connection, url: str, key: str, of: str) -> None:
    file.execute("CREATE TABLE scores (member BLOB PRIMARY KEY, score REAL) WITHOUT ROWID")
    file.execute("CREATE TABLE copied (source TEXT)")
    file.execute("INSERT INTO copied VALUES (?)", (of,))
    try:
        with closing(redis.Redis.from_url(url)) as source:
            if source.type(key) != b"zset":
                raise SettingsError(f"{key}: Redis has no sorted set of this name")
            for page in _pages(source, key):
                file.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", page)
    except (redis.RedisError, ValueError) as error:
        raise SettingsError(f"Redis: {error}") from None
    file.execute("CREATE INDEX scores_in_order ON scores (score, member)")


def _pages(source: Any, key: str) -> Iterator[list[tuple[bytes, float]]]:
    cursor, page = source.zscan(key, count=PAGE)
    yield page
    while int(cursor):
        cursor, page = source.zscan(key, cursor, count=PAGE)
        yield page


def scores_of_copy(copy: Path, prefix: str, *, is_ascending: bool) -> Iterator[ImportedScore]:
    """Yield the scores, best first, and equal scores as Redis lists them: by the bytes of the member.

    ZRANGE, for which the lowest is best, lists these upwards; ZREVRANGE downwards. `prefix` is taken off
    members that begin with it.
    """
    with closing(sqlite3.connect(copy)) as file:
        for number, (member, score) in enumerate(file.execute(_UPWARDS if is_ascending else _DOWNWARDS)):
            player = member.decode(errors="replace").removeprefix(prefix)
            yield ImportedScore(player, whole_or_text(score), number)
