"""Freezing windows and exporting final ranks from the command line."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final, TextIO

import orjson

from gateway.ledger.archive.reading import ArchivedEntry, archived_page
from gateway.ledger.archive.windows import ArchivedWindow, archived_windows_of
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import rfc3339, wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.archive.archiving import Archiver
from gateway.wiring import load_policies
from policies.errors import ArchiveRefused, SettingsError
from policies.loader import Board
from scoregate.existing import existing_ledger

PAGE: Final = 2_000
"""Entries read at once."""

_COLUMNS: Final = (
    "rank",
    "sparse_rank",
    "dense_rank",
    "player",
    "name",
    "score",
    "achieved_at",
    "submission",
)
_FORMULA: Final = ("=", "+", "-", "@")


class Format(StrEnum):
    """How entries are written."""

    CSV = "csv"
    NDJSON = "ndjson"


async def archive(settings: Settings, name: str, window: str | None) -> list[ArchivedWindow]:
    """The window, frozen though it may not be due; or all that are archived, with those that are due. Raises ArchiveRefused."""
    async with _board(settings, name) as (ledger, board):
        archiver = Archiver(settings, ledger, board, clock=wall_clock)
        if window is not None:
            return [await archiver.freeze_now(window)]
        await archiver.freeze_due()
        return [each for each in await ledger.read(archived_windows_of(name)) if each.is_readable]


async def export(settings: Settings, name: str, window: str, form: Format, output: TextIO) -> int:
    """How many entries of an archived window were written, by rank. Raises ArchiveRefused."""
    count, revision = 0, None
    async with _board(settings, name) as (ledger, _):
        while True:
            page = await ledger.read(archived_page(name, window, first=count, count=PAGE))
            if page is None or not page.window.is_readable:
                raise ArchiveRefused(f"the archive has no window {window!r} of the board {name}")
            if revision not in (None, page.window.revision):
                raise ArchiveRefused(f"{window} got a new revision meanwhile; export it again")
            if revision is None and form is Format.CSV:
                output.write(_csv_line(_COLUMNS))
            revision = page.window.revision
            if not page.entries:
                return count
            output.writelines(_lines(page.entries, form))
            count += len(page.entries)


def facts_of(found: ArchivedWindow) -> Mapping[str, object]:
    """What is told of an archived window."""
    return {
        "window": found.window,
        "revision": found.revision,
        "entries": found.entries,
        "frozen_at": rfc3339(found.frozen_at_ms),
        "upto_event": found.upto_seq,
    }


@asynccontextmanager
async def _board(settings: Settings, name: str) -> AsyncIterator[tuple[Ledger, Board]]:
    boards = load_policies(settings)
    if name not in boards:
        raise SettingsError(f"no policy for {name}; there are {', '.join(sorted(boards))}")
    async with existing_ledger(settings) as ledger:
        yield ledger, boards[name]


def _lines(entries: list[ArchivedEntry], form: Format) -> Iterator[str]:
    for each in entries:
        facts = (
            *each[:3],
            each.player,
            each.name,
            each.score,
            rfc3339(each.achieved_at_ms),
            each.submission_id,
        )
        if form is Format.NDJSON:
            yield orjson.dumps(dict(zip(_COLUMNS, facts, strict=True))).decode() + "\n"
        else:
            # A player chooses the name, and a spreadsheet would run it.
            name = f"'{each.name}" if each.name.startswith(_FORMULA) else each.name
            yield _csv_line((*facts[:4], name, *facts[5:]))


def _csv_line(cells: tuple[object, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
