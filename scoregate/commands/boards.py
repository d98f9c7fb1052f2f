"""Rebuild and check boards, and their archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from scoregate.commands.common import DataDir, console, fail, finish, settings_beside, settings_of
from scoregate.commands.tables import AsJson, show

app = typer.Typer(no_args_is_help=True)


@app.command("rebuild")
def board_rebuild(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Rebuild every board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Build boards anew from the ledger, and put them in place while they are read and written."""
    from scoregate.boards import rebuild

    if bool(boards) == every:
        fail("name the boards to rebuild, or say --all")
    finish(rebuild(settings_beside(data_dir), boards or [], console()))


@app.command("check")
def board_check(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make the index what the ledger says.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Compare index and ledger, and name each difference; all boards if none is named. Status 1 if there is one."""
    from scoregate.boards import check_all

    checking = check_all(
        settings_beside(data_dir), boards or [], console(), is_repaired=repair, is_json=as_json
    )
    if not finish(checking):
        raise typer.Exit(1)


@app.command("refold")
def board_refold(board: str, data_dir: DataDir = None) -> None:
    """Fold a board's standings anew after its operator, order or windows changed, then rebuild it."""
    from scoregate.boards import refold

    finish(refold(settings_beside(data_dir), board, console()))


@app.command("archive")
def board_archive(
    board: str,
    window: Annotated[str | None, typer.Argument(help="A window by name; all that are due if none.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Freeze windows that are over into the archive, and list what is there."""
    from scoregate.archives import archive, facts_of

    rows = [facts_of(each) for each in finish(archive(settings_of(data_dir), board, window))]
    show(rows, ("window", "revision", "entries", "frozen_at", "upto_event"), as_json=as_json)


@app.command("export")
def board_export(
    board: str,
    window: str,
    form: Annotated[str, typer.Option("--format", help="`csv` or `ndjson`.")] = "csv",
    output: Annotated[Path | None, typer.Option(help="Where to; standard output if none.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the final ranks of an archived window, one entry a line."""
    from scoregate.archives import Format, export

    if form not in set(Format):
        fail(f"--format: expected {', '.join(Format)}, got {form!r}")
    with _written(output) as file:
        count = finish(export(settings_of(data_dir), board, window, Format(form), file))
    if output is not None:
        typer.echo(f"{output}: {count} entries")


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or what becomes the file once it is whole: an export that fails leaves the one before it alone."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    unready = path.with_name(f"{path.name}.unready")
    try:
        with unready.open("w", encoding="utf-8", newline="") as file:
            yield file
        unready.replace(path)
    finally:
        unready.unlink(missing_ok=True)
