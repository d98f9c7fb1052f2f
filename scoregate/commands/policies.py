"""Policy files: what they mean, and how they differ."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scoregate.commands.common import DataDir, error_console, settings_of

app = typer.Typer(help="Look at policy files.", no_args_is_help=True)


@app.command("check")
def policy_check(files: list[Path]) -> None:
    """Say what policy files mean and what of it looks unwise, or where and why one is wrong."""
    from scoregate.policies import checked

    for file in files:
        for line in checked(file):
            typer.echo(line)


@app.command("diff")
def policy_diff(old: Path, new: Path) -> None:
    """Name each setting in which two policy files differ, and what it takes to have the new value in force.

    Status 0 if they are equal, 1 if they differ, 2 if one is wrong.
    """
    from scoregate.policies import differences

    lines = list(differences(old, new))
    for line in lines:
        typer.echo(line)
    if lines:
        raise typer.Exit(1)


@app.command("backtest")
def policy_backtest(
    file: Path,
    since: Annotated[
        str | None,
        typer.Option(help="The first day or instant to count; all the history before it is learnt from."),
    ] = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, with every changed decision.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Run a policy over its board's history: which decisions change, how right they are, how many wait each day."""
    from scoregate.backtest import as_json, backtest, tell

    report = asyncio.run(backtest(settings_of(data_dir), file, since, error_console))
    if is_json:
        typer.echo(as_json(report))
    else:
        tell(report, Console())
