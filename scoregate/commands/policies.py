"""Policy files: what they mean, and how they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoregate.commands.common import DataDir, console, error_console, fail, finish, settings_of
from scoregate.commands.tables import AsJson, show_json

app = typer.Typer(no_args_is_help=True)


@app.command("check")
def policy_check(
    files: list[Path],
    is_run: Annotated[
        bool, typer.Option("--run/--no-run", help="Start each simulator that is named, for one short run.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Say what policy files mean and what of it looks unwise, or where and why one is wrong."""
    from scoregate.policies import checked, checked_facts

    if as_json:
        show_json(checked_facts(file, is_run=is_run) for file in files)
        return
    for file in files:
        for line in checked(file, is_run=is_run):
            typer.echo(line)


@app.command("new")
def policy_new(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there.")],
    board: Annotated[str | None, typer.Option(help="The board's name; the file's, if that is one.")] = None,
    title: Annotated[str | None, typer.Option(help="Its title for readers.")] = None,
    writes: Annotated[str | None, typer.Option(help="`verified`, `open` or `trusted`.")] = None,
    order: Annotated[str | None, typer.Option(help="Which scores are better: `higher` or `lower`.")] = None,
    minimum: Annotated[int | None, typer.Option(help="The lowest score there can be.")] = None,
    maximum: Annotated[str | None, typer.Option(help="The highest; `any` where only servers write.")] = None,
    windows: Annotated[
        str | None, typer.Option(help="`alltime,daily,weekly,monthly`, or some of it.")
    ] = None,
    simulator: Annotated[Path | None, typer.Option(help="The file that plays runs again.")] = None,
    build: Annotated[str | None, typer.Option(help="The build of the game that it belongs to.")] = None,
    maximum_ticks: Annotated[int | None, typer.Option(help="The ticks of the longest run.")] = None,
    ticks_per_second: Annotated[int | None, typer.Option(help="The ticks of a second of play.")] = None,
    buttons: Annotated[
        int | None, typer.Option(help="How many of an input's lowest bits are buttons.")
    ] = None,
    is_asking: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask for what no option says, or take its default.")
    ] = True,
) -> None:
    """Write a commented policy file for a new board, by asking what only its studio knows."""
    from scoregate.policy_answers import Answers, new_board
    from scoregate.policy_file import write_policy

    given = {name.replace("_", "-"): value for name, value in locals().items()}
    if file.exists():
        fail(f"{file} is there already, and is not overwritten")
    written = write_policy(file, new_board(Answers(given, is_asking=is_asking), file))
    file.chmod(0o644)  # no secret, and the parts that read it may be another user's
    typer.echo(f"{file}: board '{written.name}', {written.digest}; next: scoregate policy check {file}")


@app.command("diff")
def policy_diff(old: Path, new: Path, as_json: AsJson = False) -> None:
    """Name each setting in which two policy files differ, and what it takes to have the new value in force.

    Status 0 if they are equal, 1 if they differ, 2 if one is wrong.
    """
    from scoregate.policies import differences, differing_facts

    found = list(differing_facts(old, new))
    if as_json:
        show_json(found)
    else:
        for line in differences(old, new):
            typer.echo(line)
    if found:
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

    report = finish(backtest(settings_of(data_dir), file, since, error_console()))
    if is_json:
        typer.echo(as_json(report))
    else:
        tell(report, console())
