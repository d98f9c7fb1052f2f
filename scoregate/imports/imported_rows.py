"""Brings rows of another leaderboard onto a board by trusted writes, and goes on where it ended."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from gateway.runtime.failpoints import Point, reach
from policies.errors import SettingsError
from scoregate.backup_files import sync_folder
from scoregate.imports.imported_score import LONGEST_TEXT, ImportedScore

BATCH: Final = 500
BEGINNING: Final = 1 << 16
"""Bytes of a file by which it is known again: rows may be added at its end."""

_FIRST_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of the first of equal scores, if they have none."""

_UNSENDABLE: Final = re.compile(r"[^ -~]")

_NEVER: Final = {"action": "write", "operation": "import-dry-run", "player": "nobody", "score": 0}
_NEVER_AT: Final = "9999-12-31T00:00:00Z"

Write = dict[str, Any]
WriteEach = Callable[[Sequence[Write]], list[dict[str, Any]]]


class Row(NamedTuple):
    """A row of the source: the write that it becomes, unless it has a fault of its own."""

    write: Write
    player: str
    place: str | None
    fault: str | None


class Imported(NamedTuple):
    """The numbers of rows that were written and refused, in this run and those that were cut off before."""

    written: int
    refused: int


def rows_of(scores: Iterable[ImportedScore], board: str) -> Iterator[Row]:
    """Yield the row of each score: those without a time get one, a millisecond later for each turn."""
    for number, imported in enumerate(scores):
        player = imported.player[:LONGEST_TEXT]
        yield Row(_write(board, number, imported), player, imported.place, imported.fault)


def refusal(number: int, row: Row, reason: str) -> str:
    """Return the line that says of a row, which is counted from 1, why it is refused."""
    place = {"place": row.place} if row.place else {}
    return json.dumps({"row": number, **place, "player": row.player, "reason": reason})


def _write(board: str, number: int, imported: ImportedScore) -> Write:
    """Return a write whose operation id follows from the board and all that it says, so that it happens once.

    Texts that no row may have are cut, and have question marks for what is not printed in ASCII, so that the
    gateway refuses the row and not the request.
    """
    player, score, turn, achieved_at, stats, *_ = imported
    at = _FIRST_AT + timedelta(milliseconds=turn)
    achieved_at = at.isoformat(timespec="milliseconds") if achieved_at is None else achieved_at
    content = json.dumps([board, number, player, score, achieved_at, *([stats] if stats else [])])
    operation = "import-" + sha256(content.encode()).hexdigest()[:40]
    entry = {"player": _sendable(player), "score": _sendable(score), "achieved_at": _sendable(achieved_at)}
    others = {"stats": {name: _sendable(value) for name, value in stats.items()}} if stats else {}
    return {"action": "write", "operation": operation} | entry | others


def _sendable(value: object) -> object:
    return _UNSENDABLE.sub("?", value[:LONGEST_TEXT]) if isinstance(value, str) else value


class Checkpoint:
    """The file that says how many rows are done, and of which import: `what` decides what its rows are."""

    def __init__(self, path: Path, what: Iterable[str | bytes]) -> None:
        self._path = path
        parts = [part if isinstance(part, bytes) else part.encode() for part in what]
        self._of = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    def load(self) -> tuple[int, int]:
        """Return the number of rows that are done, and the bytes of their refusals.

        Raises SettingsError if the file is of another import.
        """
        if not self._path.exists():
            return 0, 0
        try:
            kept = json.loads(self._path.read_text())
            if kept["of"] == self._of:
                return int(kept["done"]), int(kept["refusals"])
        except (ValueError, KeyError, TypeError):
            pass
        raise SettingsError(
            f"{self._path} is of another file, gateway or choice of columns; remove it to begin anew: "
            "rows that were written already change nothing"
        )

    def keep(self, done: int, refusals: int) -> None:
        """Write the number of rows that are done, and the bytes of their refusals."""
        unready = self._path.with_name(f"{self._path.name}.unready")
        unready.unlink(missing_ok=True)
        with unready.open("x", encoding="utf-8") as file:
            json.dump({"of": self._of, "done": done, "refusals": refusals}, file)
            file.flush()
            os.fsync(file.fileno())
        reach(Point.INSIDE_CHECKPOINT)
        unready.replace(self._path)
        reach(Point.AFTER_CHECKPOINT)


def import_rows(
    rows: Iterable[Row],
    write_each: WriteEach,
    checkpoint: Checkpoint,
    refusals: Path,
    advance: Callable[[int], None],
) -> Imported:
    """Write rows from the checkpoint on, which follows after each batch; refused ones go to a file.

    Raises SettingsError if there are fewer rows than were done before, and OSError if `refusals` cannot be
    written, or is a link.
    """
    done, said = checkpoint.load()
    remaining = iter(rows)
    if done > sum(1 for _ in islice(remaining, done)):
        raise SettingsError(f"{done} rows were imported before, and the source has fewer now")
    advance(done)
    with open(refusals, "a+b", opener=_not_by_a_link) as file:
        refused = _count_of_kept(file, said)
        sync_folder(refusals.parent)  # the checkpoint counts on the file, which may be new
        while batch := list(islice(remaining, BATCH)):
            lines = [
                refusal(number, row, reason).encode() + b"\n"
                for number, (row, reason) in enumerate(_refused(batch, write_each), done + 1)
                if reason is not None
            ]
            reach(Point.AFTER_IMPORTED_BATCH)
            refused += len(lines)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            reach(Point.AFTER_REFUSALS)
            done += len(batch)
            checkpoint.keep(done, file.tell())
            advance(len(batch))
        is_empty = not file.tell()
    if is_empty:
        refusals.unlink()
    return Imported(done - refused, refused)


def _count_of_kept(file: IO[bytes], said: int) -> int:
    """Strike what was said of a batch that was not done, and return the number of lines that stay."""
    file.truncate(min(said, file.tell()))
    file.seek(0)
    return sum(1 for _ in file)


def _not_by_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _refused(batch: Sequence[Row], write_each: WriteEach) -> Iterator[tuple[Row, str | None]]:
    """Write a batch, and yield each row with the reason for which it is refused, None if it is written."""
    writes = [row.write for row in batch if row.fault is None]
    outcomes = iter(write_each(writes) if writes else ())
    for row in batch:
        if row.fault is not None:
            yield row, row.fault
            continue
        outcome = next(outcomes)
        if outcome["status"] == "done":
            yield row, None
            continue
        problem = outcome["problem"]
        yield row, problem.get("detail") or problem.get("title") or "refused"


def check_rows(
    rows: Iterable[Row], errors_of: Callable[[Sequence[Write]], Sequence[dict[str, Any]]]
) -> Iterator[tuple[int, Row, str | None]]:
    """Yield each row with its number and what it would be refused for, None for nothing.

    The rows are sent as batches, all or none, with an operation that is always refused: one in the future.
    """
    remaining, done = iter(rows), 0
    impossible = _NEVER | {"achieved_at": _NEVER_AT}
    while batch := list(islice(remaining, BATCH // 2)):
        sent = [number for number, row in enumerate(batch) if row.fault is None]
        errors = errors_of([*(batch[number].write for number in sent), impossible])
        reasons = {sent[each["index"]]: each["detail"] for each in errors if each["index"] < len(sent)}
        for number, row in enumerate(batch):
            yield done + number + 1, row, row.fault or reasons.get(number)
        done += len(batch)
