"""The five readers of other leaderboards as functions of bytes: each raises nothing but a broken promise.

A file is of somebody else's program. It is scores that can be sent, or refused in a sentence that names it.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from policies.errors import SettingsError
from scoregate.imports.csv_rows import Columns, scores_of_csv
from scoregate.imports.imported_rows import refusal, rows_of
from scoregate.imports.imported_score import EXACT, LONGEST_TEXT, ImportedScore
from scoregate.imports.nakama import scores_of_nakama
from scoregate.imports.playfab import scores_of_playfab
from scoregate.imports.redis_copy import scores_of_copy
from scoregate.imports.steam import scores_of_steam

ReadScores = Callable[[Path], Iterator[ImportedScore]]

_FOLDER: Final = TemporaryDirectory(prefix="fuzz-exports-")
"""Of this process: the readers take files."""
_PRINTABLE: Final = re.compile(r"[ -~]*")
_SCORES: Final = (-1.5, 0.0, 1200.0, 2.0**53, 2.0**60, 1e308, float("inf"), float("-inf"))
_COLUMNS: Final = Columns("player", "score", "at")


def export(name: str, scores: ReadScores, data: bytes) -> None:
    """Read the bytes of a file: rows that a gateway can be sent, or a SettingsError that names the file."""
    path = Path(_FOLDER.name) / name
    path.write_bytes(data)
    try:
        _check_rows(scores(path), most=len(data))
    except SettingsError as error:
        _check_sentence(error, f"{path}: ")


def sorted_set(data: bytes) -> None:
    """Members and scores of a sorted set, of 9 bytes and more: rows in its order, or two members of one name."""
    copy = Path(_FOLDER.name) / "redis.copy"
    copy.unlink(missing_ok=True)
    members = [(member[1:], _SCORES[member[0] % len(_SCORES)]) for member in data.split(b"\n") if member]
    with closing(sqlite3.connect(copy)) as file:
        file.execute("CREATE TABLE scores (member BLOB PRIMARY KEY, score REAL) WITHOUT ROWID")
        file.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", members)
        file.commit()
    for is_ascending in (False, True):
        read = partial(scores_of_copy, copy, "user:", is_ascending=is_ascending)
        try:
            assert len(dict(members)) == _check_rows(read(), most=len(data))
        except SettingsError as error:
            _check_sentence(error, "--member-prefix: ")


def _check_sentence(error: SettingsError, beginning: str) -> None:
    assert str(error).startswith(beginning)
    assert len(str(error)) < len(beginning) + 1000


def _check_rows(scores: Iterator[ImportedScore], most: int) -> int:
    """See that each row can be sent, however odd, and that none comes from nothing. Return their number."""
    number = 0
    for number, row in enumerate(rows_of(scores, "board"), 1):
        assert number <= most
        for value in (row.write["player"], row.write["score"], row.write["achieved_at"]):
            _check_value(value)
        for value in row.write.get("stats", {}).values():
            _check_value(value)
        assert json.loads(refusal(number, row, row.fault or "none"))["row"] == number
    return number


def _check_value(value: object) -> None:
    if isinstance(value, str):
        assert len(value) <= LONGEST_TEXT
        assert _PRINTABLE.fullmatch(value)
    else:
        assert type(value) is int
        assert abs(value) < EXACT


CSV: Final = (
    b"player,score,at\nada,1200,2026-11-20T10:00:00Z\nbo,1.0,\n",
    b'score;player;at\n" 7 ";"a;""b""";2026-11-20\n',
    "\ufeffplayer\tscore\tat\r\n\u00e9\t+3\t\r\n".encode("utf-16"),
    b'player,score,at\n"a\nb",1,x\n,,\n',
)
NAKAMA: Final = (
    b'{"records":[{"owner_id":"a-1","score":"1200","subscore":"3","update_time":"2026-11-20T10:00:00Z"}]}',
    b'{}\n{"next_cursor":"x"}\n{"owner_id":7,"update_time":"\\ud800"}\n',
    b'[\n{"owner_id":"a","score":1e400,"update_time":"now"}\n]',
)
PLAYFAB: Final = (
    b'{"code":200,"data":{"Leaderboard":[{"PlayFabId":"A1","StatValue":1200,"Position":0}]}}',
    b'{"Leaderboard":[{"PlayFabId":"B","StatValue":NaN,"Position":1e1}]}',
)
STEAM: Final = (
    b'{"leaderboardEntryInformation":{"leaderboardEntries":[{"steamID":"765","score":1200,"rank":1}]}}',
    b'[{"steamID":765,"score":"-7","rank":2},{"steamID":"\\u0000","score":[[]],"rank":3}]',
)
MEMBERS: Final = (b"\x02ada\n\x02user:ada", b"\x00user:bo\n\x01\xff\xfe\n\x06\n\x05a", b"\x03" + b"u" * 200)

EXPORTS: Final[dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]]] = {
    "csv_export": (partial(export, "scores.csv", partial(scores_of_csv, columns=_COLUMNS)), lambda: [*CSV]),
    "nakama_export": (partial(export, "nakama.json", scores_of_nakama), lambda: [*NAKAMA]),
    "playfab_export": (partial(export, "playfab.json", scores_of_playfab), lambda: [*PLAYFAB]),
    "steam_export": (partial(export, "steam.json", scores_of_steam), lambda: [*STEAM]),
    "sorted_set": (sorted_set, lambda: [*MEMBERS]),
}
"""Each reader with the bytes to begin from."""
