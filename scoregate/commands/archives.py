"""`scoregate board archive` and `export`: freeze windows that are over, and export their final ranks."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from policies.errors import ArchiveRefused
from scoregate.commands.common import (
    DataDir,
    board_named,
    deployment_clock,
    deployment_of,
    existing_ledger,
    fail,
    finish,
)
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.ledger.archive.reading import ArchivedEntry
    from gateway.ledger.archive.windows import ArchivedWindow
    from gateway.ledger.ledger import Ledger
    from gateway.runtime.settings import Settings
    from policies.loader import Board

PAGE: Final = 2_000
"""Entries per read."""

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
"""Characters with which a spreadsheet's formula begins."""


class Format(StrEnum):
    """A format of exported entries."""

    CSV = "csv"
    NDJSON = "ndjson"


def board_archive(
    board: str,
    window: Annotated[
        str | None, typer.Argument(help="A window by name; by default all that are due.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Freeze windows that are over into the archive, and list what is there."""
    settings = deployment_of(data_dir, is_writing=True)
    rows = [_facts_of(archived) for archived in finish(_archive(settings, board, window))]
    show(rows, ("window", "revision", "entries", "frozen_at", "upto_event"), as_json=as_json)


def board_export(
    board: str,
    window: str,
    form: Annotated[str, typer.Option("--format", help="`csv` or `ndjson`.")] = "csv",
    output: Annotated[
        Path | None, typer.Option(help="The file to write; by default standard output.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the final ranks of an archived window, one entry a line."""
    if form not in set(Format):
        fail(f"--format: expected {', '.join(Format)}, got {form!r}")
    with _written_whole(output) as file:
        count = finish(export(deployment_of(data_dir), board, window, Format(form), file))
    if output is not None:
        typer.echo(f"{output}: {count} entries")


async def _archive(settings: Settings, name: str, window: str | None) -> list[ArchivedWindow]:
    """Freeze the window, even before it is due, and return it. Raises ArchiveRefused.

    Without a window, freeze all that are due, and return all that can be read.
    """
    from gateway.ledger.archive.windows import archived_windows_of
    from gateway.steward.archive.archiving import Archiver

    async with _ledger_and_board(settings, name) as (ledger, board):
        archiver = Archiver(settings, ledger, board, clock=await deployment_clock(settings, ledger))
        if window is not None:
            return [await archiver.freeze_now(window)]
        await archiver.freeze_due()
        return [archived for archived in await ledger.read(archived_windows_of(name)) if archived.is_readable]


async def export(settings: Settings, name: str, window: str, form: Format, output: TextIO) -> int:
    """Write the entries of an archived window by rank, and return their number. Raises ArchiveRefused."""
    from gateway.ledger.archive.reading import archived_page

    count, revision = 0, None
    async with _ledger_and_board(settings, name) as (ledger, _):
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


def _facts_of(archived: ArchivedWindow) -> Mapping[str, object]:
    from gateway.runtime.clock import rfc3339

    return {
        "window": archived.window,
        "revision": archived.revision,
        "entries": archived.entries,
        "frozen_at": rfc3339(archived.frozen_at_ms),
        "upto_event": archived.upto_seq,
    }


@asynccontextmanager
async def _ledger_and_board(settings: Settings, name: str) -> AsyncIterator[tuple[Ledger, Board]]:
    from gateway.wiring import catalogue_of

    async with existing_ledger(settings) as ledger:
        yield ledger, await board_named(catalogue_of(settings, ledger), name)


def _lines(entries: list[ArchivedEntry], form: Format) -> Iterator[str]:
    import orjson

    from gateway.runtime.clock import rfc3339

    for entry in entries:
        cells = (
            *entry[:3],
            entry.player,
            entry.name,
            entry.score,
            rfc3339(entry.achieved_at_ms),
            entry.submission_id,
        )
        if form is Format.NDJSON:
            yield orjson.dumps(dict(zip(_COLUMNS, cells, strict=True))).decode() + "\n"
        else:
            # A player chooses the name, and a spreadsheet would run it.
            name = f"'{entry.name}" if entry.name.startswith(_FORMULA) else entry.name
            yield _csv_line((*cells[:4], name, *cells[5:]))


def _csv_line(cells: tuple[object, ...]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


@contextmanager
def _written_whole(path: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that replaces `path` at the end.

    A failed export leaves the older file alone. A device or a pipe is written to, and a link stays one.
    """
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    path = path.resolve()
    unready = path.with_name(f"{path.name}.unready")
    try:
        with unready.open("w", encoding="utf-8", newline="") as file:
            yield file
        unready.replace(path)
    finally:
        unready.unlink(missing_ok=True)
