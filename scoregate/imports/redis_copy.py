"""Copies a sorted set of Redis into a file, so that its scores stay as they were during an import."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import redis

from gateway.runtime.failpoints import Point, reach
from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore, whole_or_text

PAGE: Final = 1_000
"""Members that a step of ZSCAN asks for."""

_UPWARDS: Final = "SELECT member, score FROM scores ORDER BY score, member"
_DOWNWARDS: Final = "SELECT member, score FROM scores ORDER BY score DESC, member DESC"

_DOUBLE: Final = """
SELECT member FROM scores AS short
WHERE EXISTS (SELECT 1 FROM scores AS long WHERE long.member = CAST(?1 || short.member AS BLOB)) LIMIT 1
"""

PASSWORD_VARIABLE: Final = "REDISCLI_AUTH"  # noqa: S105 - a name
"""The variable in which redis-cli looks for a password; one in the address goes before."""


def copy_sorted_set(url: str, key: str, copy: Path) -> int:
    """Copy a sorted set, unless it was copied before, and return the number of its members.

    Every member that stands in it from the beginning to the end is copied (ZSCAN). The copy is one
    transaction: cut off, it begins anew. Raises SettingsError if there is no such sorted set,
    or the copy is of another.
    """
    if copy.is_symlink():
        raise SettingsError(f"{copy}: expected a file, not a link")
    of = sha256(f"{url}\n{key}".encode()).hexdigest()
    with closing(sqlite3.connect(copy, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
            if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'copied'").fetchone():
                _fill(file, url, key, of)
                file.execute("COMMIT")
                reach(Point.AFTER_COPY)
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
        with closing(_connected(url)) as source:
            _refuse_other_types(source, key)
            for page in _pages(source, key):
                file.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", page)
                reach(Point.INSIDE_COPY)
            _refuse_other_types(source, key)  # it may have ended meanwhile, and the copy with it
    except redis.RedisError as error:
        raise SettingsError(f"Redis: {error}") from None
    file.execute("CREATE INDEX scores_in_order ON scores (score, member)")


def _connected(url: str) -> Any:
    """Return a client for an address. Raises SettingsError for none, without showing it.

    It speaks the protocol that every Redis knows, and that says what is wrong without a password.
    """
    try:
        return redis.Redis.from_url(url, password=os.environ.get(PASSWORD_VARIABLE), protocol=2)
    except ValueError:
        raise SettingsError(
            "expected redis://<user>:<password>@<host>:<port>/<database>, rediss: for TLS, or unix:, "
            "with / ? # @ and : in a name or a password written as %2F %3F %23 %40 and %3A"
        ) from None


def _refuse_other_types(source: Any, key: str) -> None:
    """Raise SettingsError if a key has no sorted set."""
    kind = source.type(key).decode()
    if kind != "zset":
        found = "nothing of this name, in this database" if kind == "none" else f"a {kind} of this name"
        raise SettingsError(f"{key}: expected a sorted set; Redis has {found}")


def _pages(source: Any, key: str) -> Iterator[list[tuple[bytes, float]]]:
    cursor, page = source.zscan(key, count=PAGE)
    yield page
    while int(cursor):
        cursor, page = source.zscan(key, cursor, count=PAGE)
        yield page


def scores_of_copy(copy: Path, prefix: str, *, is_ascending: bool) -> Iterator[ImportedScore]:
    """Yield the scores, best first, and equal scores as Redis lists them: by the bytes of the member.

    ZRANGE, for which the lowest is best, lists these upwards; ZREVRANGE downwards. `prefix` is taken off
    members that begin with it. Raises SettingsError if two members are one player then.
    """
    with closing(sqlite3.connect(copy)) as file:
        if prefix and (double := file.execute(_DOUBLE, (prefix,)).fetchone()):
            name = double[0].decode(errors="replace")
            raise SettingsError(f"--member-prefix: {name!r} and {prefix + name!r} would be one player")
        for number, (member, score) in enumerate(file.execute(_UPWARDS if is_ascending else _DOWNWARDS)):
            player = member.decode(errors="replace").removeprefix(prefix)
            yield ImportedScore(player, whole_or_text(score), number)
