"""The front door: puts the commands together, and turns a known error into one line."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from policies.errors import NoPolicies, ScoregateError
from scoregate.commands.backup import backup
from scoregate.commands.common import fail, own_version
from scoregate.commands.demo import demo
from scoregate.commands.explain import explain
from scoregate.commands.groups import LightCommand, LoadingGroup
from scoregate.commands.health import health
from scoregate.commands.imports import import_scores
from scoregate.commands.reload import reload
from scoregate.commands.restore import restore
from scoregate.commands.serve import serve
from scoregate.commands.sign import sign
from scoregate.commands.status import status
from scoregate.commands.steward import steward
from scoregate.commands.up import up
from scoregate.commands.worker import worker
from scoregate.private_files import write_privately

GARBAGE_THRESHOLD: Final = 50_000
"""Objects made between two searches for cycles. A request makes hundreds and no cycles.

Python's own threshold of 700 costs a tenth of the throughput.
"""

SHOWN_CHARACTERS: Final = 200
"""Most characters that a fault repeats of a word that is no text."""

_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
"""What stands for a byte that is not UTF-8 in words of the command line, variables and names of files."""

DRIVERS: Final = {"redis", "sqlalchemy", "sqlite3", "asyncpg"}
"""Libraries whose errors come from a server or a file, not from a bug of ours."""

app = typer.Typer(
    cls=LoadingGroup,
    help="An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text: to draw its boxes would take longer than all the rest
)
for command in (status, reload, up, demo, serve, steward, worker, backup, restore, health, sign, explain):
    app.command()(command)
app.command("import")(import_scores)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(own_version())
        raise typer.Exit


@app.command("version", cls=LightCommand)
def version() -> None:
    """Print the version."""
    typer.echo(own_version())


@app.callback()
def scoregate(
    is_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options of the program itself; its help is that of `app`."""


def main() -> None:
    """Run the command that the words name, with a known error as one line instead of a traceback.

    Files that any command creates are for its own user only.
    """
    gc.set_threshold(GARBAGE_THRESHOLD)  # most of the objects that a command makes come from its imports
    write_privately()
    try:
        app()
    except NoPolicies as error:
        fail(_with_variable(error))
    except ScoregateError as error:
        fail(str(error))
    except Exception as error:
        sentence = _outside_fault(error)
        if sentence is None:
            raise
        fail(sentence)


def _with_variable(error: NoPolicies) -> str:
    """Return what the folder lacks, behind the variable if that is what names the folder."""
    from scoregate.deployment_settings import VARIABLE

    named = os.environ.get(VARIABLE)
    return f"{VARIABLE}: {error}" if named and Path(named) == error.folder else str(error)


def _outside_fault(error: Exception) -> str | None:
    """Return what is wrong with a word, a file, a socket or a database; None for a bug of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, UnicodeEncodeError) and _NO_TEXT.search(error.object):
        return f"expected UTF-8, not {error.object[:SHOWN_CHARACTERS]!r}"
    if type(error).__module__.partition(".")[0] in DRIVERS:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no more is known'}"
    return None
