"""Brings rows of another leaderboard onto a board by trusted writes, and goes on where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from policies.errors import SettingsError
from scoregate.imports.imported_score import ImportedScore

BATCH: Final = 500
BEGINNING: Final = 1 << 16
"""Bytes of a file by which it is known again: rows may be added at its end."""

_FIRST_AT: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time of the first of equal scores, if they have none."""

_LONGEST: Final = 100
"""Characters of a text that are sent; no player's id and no time has as many."""

_NEVER: Final = {"action": "write", "operation": "import-dry-run", "player": "nobody", "score": 0}
_NEVER_AT: Final = "9999-12-31T00:00:00Z"

Row = dict[str, Any]
WriteEach = Callable[[Sequence[Row]], list[dict[str, Any]]]


class Imported(NamedTuple):
    """The numbers of rows that were written and refused."""

    written: int
    refused: int


def rows_of(scores: Iterable[ImportedScore]) -> Iterator[Row]:
    """Yield the write of each score: those without a time get one, a millisecond later for each turn."""
    for number, imported in enumerate(scores):
        yield _write(number, imported)


def _write(number: int, imported: ImportedScore) -> Row:
    """Return a write whose operation id follows from all that it says, so that it happens once.

    Texts that are too long for any row are cut, so that the gateway refuses the row and not the request.
    """
    player, score, turn, achieved_at, stats = imported
    at = _FIRST_AT + timedelta(milliseconds=turn)
    achieved_at = at.isoformat(timespec="milliseconds") if achieved_at is None else achieved_at
    content = json.dumps([number, player, score, achieved_at, *([stats] if stats else [])])
    operation = "import-" + sha256(content.encode()).hexdigest()[:40]
    entry = {"operation": operation, "player": _cut(player), "score": score, "achieved_at": _cut(achieved_at)}
    return {"action": "write"} | entry | ({"stats": dict(stats)} if stats else {})


def _cut(text: str) -> str:
    return text[:_LONGEST].encode(errors="replace").decode()


class Checkpoint:
    """The file that says how many rows are done, and of which import: `what` decides what its rows are."""

    def __init__(self, path: Path, what: Iterable[str | bytes]) -> None:
        self._path = path
        parts = [part if isinstance(part, bytes) else part.encode() for part in what]
        self._of = sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()

    def done(self) -> int:
        """Return the number of rows that are done. Raises SettingsError if the file is of another import."""
        if not self._path.exists():
            return 0
        try:
            kept = json.loads(self._path.read_text())
            if kept["of"] == self._of:
                return int(kept["done"])
        except (ValueError, KeyError, TypeError):
            pass
        raise SettingsError(
            f"{self._path} is of another file, gateway or choice of columns; remove it to begin anew: "
            "rows that were written already change nothing"
        )

    def keep(self, done: int) -> None:
        """Write the number of rows that are done."""
        unready = self._path.with_name(f"{self._path.name}.unready")
        unready.write_text(json.dumps({"of": self._of, "done": done}))
        unready.replace(self._path)


def import_rows(
    rows: Iterable[Row],
    write_each: WriteEach,
    checkpoint: Checkpoint,
    refusals: Path,
    advance: Callable[[int], None],
) -> Imported:
    """Write rows from the checkpoint on, which follows after each batch; refused ones go to a file."""
    done = checkpoint.done()
    remaining, written, refused = islice(iter(rows), done, None), 0, 0
    advance(done)
    with refusals.open("a", encoding="utf-8") as file:
        while batch := list(islice(remaining, BATCH)):
            for number, (row, outcome) in enumerate(zip(batch, write_each(batch), strict=True), done + 1):
                if outcome["status"] == "done":
                    written += 1
                    continue
                refused += 1
                reason = outcome["problem"].get("detail") or outcome["problem"].get("title")
                file.write(json.dumps({"row": number, "player": row["player"], "reason": reason}) + "\n")
            file.flush()
            done += len(batch)
            checkpoint.keep(done)
            advance(len(batch))
    return Imported(written, refused)


def check_rows(
    rows: Iterable[Row], errors_of: Callable[[Sequence[Row]], Sequence[dict[str, Any]]]
) -> Iterator[tuple[int, Row, str | None]]:
    """Yield each row with its number and what the gateway would refuse it for, None for nothing.

    The rows are sent as batches, all or none, with an operation that is always refused: one in the future.
    """
    remaining, done = iter(rows), 0
    while batch := list(islice(remaining, BATCH // 2)):
        impossible = _NEVER | {"achieved_at": _NEVER_AT}
        reasons = {each["index"]: each["detail"] for each in errors_of([*batch, impossible])}
        for number, row in enumerate(batch):
            yield done + number + 1, row, reasons.get(number)
        done += len(batch)
