"""`scoregate policy`: explain policy files, write a new one, compare two, and try one on the past."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from policies.errors import SettingsError
from scoregate.commands.common import (
    DataDir,
    console,
    error_console,
    existing_ledger,
    fail,
    finish,
    settings_of,
    showing_progress,
)
from scoregate.commands.tables import AsJson, show_json

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.ledger.ledger import Ledger
    from gateway.runtime.settings import Settings
    from policies.board import Board
    from policies.family import Family
    from validators.backtest_summary import BacktestSummary

_WIDTH: Final = 18

app = typer.Typer(no_args_is_help=True)


@app.command("check")
def policy_check(
    files: list[Path],
    is_run: Annotated[
        bool, typer.Option("--run/--no-run", help="Start each named simulator, for one short run.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Say what policy files or folders mean and what looks unwise, or where and why a file is wrong."""
    from policies.errors import PolicyError
    from policies.loader import load_policies

    faults: list[str] = []
    for file in _files_in(files):
        try:
            if as_json:
                show_json([checked_facts(file, is_run=is_run)])
                continue
            for line in _checked_lines(file, is_run=is_run):
                typer.echo(line)
        except PolicyError as fault:
            faults.append(str(fault))
    if faults:
        raise PolicyError("\n".join(faults))
    # Each file is right; what is wrong now is so between them.
    for folder in filter(Path.is_dir, files):
        load_policies(folder)
    _refuse_described_twice([file for file in files if not file.is_dir()])


def _refuse_described_twice(files: list[Path]) -> None:
    """Raise PolicyError if two of these files are of one folder, and describe the same board or family."""
    from policies.document import read_document
    from policies.loader import Described, load_policy

    described = Described()
    for file in files if len(files) > 1 else []:
        described.note(file, load_policy(read_document(file)))


@app.command("new")
def policy_new(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    board: Annotated[str | None, typer.Option(help="The board's name; by default the file's.")] = None,
    family: Annotated[
        str | None, typer.Option(help="The name of a family of boards, instead of one board.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Its title for readers.")] = None,
    writes: Annotated[str | None, typer.Option(help="`verified`, `open` or `trusted`.")] = None,
    order: Annotated[str | None, typer.Option(help="The better scores: `higher` or `lower`.")] = None,
    minimum: Annotated[int | None, typer.Option(help="The lowest possible score.")] = None,
    maximum: Annotated[
        str | None, typer.Option(help="The highest possible score; `any` where only servers write.")
    ] = None,
    windows: Annotated[
        str | None, typer.Option(help="`alltime,daily,weekly,monthly`, or some of them.")
    ] = None,
    simulator: Annotated[Path | None, typer.Option(help="The file that plays runs again.")] = None,
    build: Annotated[str | None, typer.Option(help="The build of the game that it belongs to.")] = None,
    maximum_ticks: Annotated[int | None, typer.Option(help="The ticks of the longest run.")] = None,
    ticks_per_second: Annotated[int | None, typer.Option(help="The ticks of a second of play.")] = None,
    buttons: Annotated[
        int | None, typer.Option(help="The number of an input's lowest bits that are buttons.")
    ] = None,
    opened_by: Annotated[
        str | None, typer.Option(help="Who opens a family's boards: `servers`, `players` or `both`.")
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="A pattern for the names of a family's boards after the dot.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option(help="What has a seed of its own in a family: each `run` or each `board`.")
    ] = None,
    is_asking: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask for missing options, or take their defaults.")
    ] = True,
) -> None:
    """Write a commented policy file for a new board or family, and ask for what only its studio knows."""
    options = {name.replace("_", "-"): value for name, value in locals().items()}  # before any other local

    from scoregate.policy_answers import Questionnaire, new_policy
    from scoregate.policy_file import write_policy

    if file.exists():
        fail(f"{file} is there already, and is not overwritten")
    written = write_policy(file, new_policy(Questionnaire(options, is_asking=is_asking), file))
    file.chmod(0o644)  # no secret, and the parts that read it may be another user's
    typer.echo(
        f"{file}: {written.kind} '{written.name}', {written.digest}; next: scoregate policy check {file}"
    )


@app.command("diff")
def policy_diff(old: Path, new: Path, as_json: AsJson = False) -> None:
    """Name each setting in which two policy files differ, and what it takes to put the new value in force.

    Status 0 if they are equal, 1 if they differ, 2 if one is wrong.
    """
    differences = list(_differences(old, new))
    if as_json:
        show_json(differences)
    else:
        for line in map(_difference_line, differences):
            typer.echo(line)
    if differences:
        raise typer.Exit(1)


@app.command("backtest")
def policy_backtest(
    file: Path,
    since: Annotated[
        str | None,
        typer.Option(
            help="The first day or instant to count; the history before it only teaches the policy."
        ),
    ] = None,
    board: Annotated[str | None, typer.Option(help="One board of a family; by default all of them.")] = None,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object, with up to 10,000 changed decisions.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Run a policy over its boards' history: which decisions change, how right they are, how many wait."""
    from scoregate.backtest_report import as_json, print_report

    report = finish(_backtest(settings_of(data_dir), file, since, board, error_console()))
    if is_json:
        typer.echo(as_json(report))
    else:
        print_report(report, console())


def _files_in(paths: list[Path]) -> Iterator[Path]:
    """Yield each path that is a file, and in its place the policy files of one that is a folder."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.yaml"))
        else:
            yield path


def checked_facts(file: Path, *, is_run: bool) -> dict[str, Any]:
    """Return what a policy file means and what looks unwise. Raises PolicyError.

    With `is_run` its simulators are started, and one that cannot play is an error.
    """
    from policies.document import read_document
    from policies.loader import load_policy_in_folder
    from scoregate.first_runs import first_runs

    document = read_document(file)
    policy = load_policy_in_folder(document)
    return _facts(file, policy) | {"simulates": list(first_runs(document, policy)) if is_run else []}


def _facts(file: Path, policy: Board | Family) -> dict[str, Any]:
    """Return what follows from a policy without starting its simulators."""
    from policies.advice import advice_on
    from policies.blind_spots import blind_spots_of
    from policies.explanation import explanation

    return {
        "file": str(file),
        policy.kind: policy.name,
        "title": policy.policy.title,
        "digest": policy.digest,
        "meaning": [{"about": about, "says": says} for about, says in explanation(policy, _purposes())],
        "cannot_notice": list(blind_spots_of(policy.policy)),
        "warnings": list(advice_on(policy.policy)),
    }


def _checked_lines(file: Path, *, is_run: bool) -> Iterator[str]:
    """Yield the lines of a checked file for people. Raises PolicyError, after the lines that are sure."""
    from policies.document import read_document
    from policies.loader import load_policy_in_folder
    from scoregate.first_runs import first_runs

    document = read_document(file)
    policy = load_policy_in_folder(document)
    facts = _facts(file, policy)
    yield f"{file}: {policy.kind} '{policy.name}' ({facts['title']}), {facts['digest']}"
    for sentence in facts["meaning"]:
        yield f"  {sentence['about']:<{_WIDTH}} {sentence['says']}"
    for gap in facts["cannot_notice"]:
        yield f"  {'cannot notice':<{_WIDTH}} {gap}"
    for warning in facts["warnings"]:
        yield f"  warning: {warning}"
    if is_run:
        for sentence in first_runs(document, policy):
            yield f"  {'simulates':<{_WIDTH}} {sentence}"


def _differences(old: Path, new: Path) -> Iterator[Mapping[str, object]]:
    """Yield each setting that differs, its purpose, and what the change takes. Raises PolicyError."""
    from policies.document import read_document
    from policies.loader import load_policy
    from policies.policy_changes import changes_between, shown

    before, after = (load_policy(read_document(file)) for file in (old, new))
    for change in changes_between(before, after):
        facts = {"setting": change.name, "old": shown(change.old), "new": shown(change.new)}
        yield {**facts, "effect": change.effect.value, "about": _purpose_of(change.section)}


def _difference_line(difference: Mapping[str, object]) -> str:
    about = f" ({difference['about']})" if difference["about"] else ""
    return "{setting}: {old} -> {new}; {effect}".format_map(difference) + about


def _purpose_of(section: str) -> str:
    """Return the purpose of a section by its description, or by the docstring of its model."""
    from policies.family_policy import FamilyPolicy

    field = FamilyPolicy.model_fields.get(section)
    if field is None:
        return ""
    types = (field.annotation, *getattr(field.annotation, "__args__", ()))
    models = [
        model for model in types if isinstance(model, type) and model.__module__.startswith("policies.")
    ]
    return _first_sentence(field.description or (models[-1].__doc__ if models else "") or "")


def _purposes() -> Mapping[str, str]:
    """Return what each validator looks for."""
    from policies.judging import Modes

    described = {name: field.description for name, field in Modes.model_fields.items()}
    return {name: f"Looks for {text.replace('`', '')}." for name, text in described.items() if text}


def _first_sentence(text: str) -> str:
    plain = " ".join(text.replace("`", "").split())
    return re.split(r"(?<=\.)\s", plain, maxsplit=1)[0]


async def _backtest(
    settings: Settings, file: Path, since: str | None, board: str | None, screen: Console
) -> BacktestSummary:
    """Return what the policy in `file` would have decided. Raises PolicyError and SettingsError."""
    from policies.document import read_document
    from policies.family import Family
    from policies.loader import load_policy
    from scoregate.ledger_backtest import backtest_board, backtest_family

    policy, since_ms = load_policy(read_document(file)), _since_ms(since)
    async with existing_ledger(settings) as ledger:
        with showing_progress(screen, f"{board or policy.name}: events") as advance:
            if isinstance(policy, Family) and board is None:
                return await backtest_family(ledger, policy, since_ms=since_ms, advance=advance)
            one = await _board_of(ledger, policy, board)
            return await backtest_board(ledger, one, since_ms=since_ms, advance=advance)


async def _board_of(ledger: Ledger, policy: Board | Family, name: str | None) -> Board:
    """Return the named board under a policy; without a name the board of its file. Raises SettingsError."""
    from gateway.ledger.boards.lookups import boards_named
    from policies.family import Family

    if not isinstance(policy, Family):
        if name not in {None, policy.name}:
            raise SettingsError(f"--board: the file describes {policy.name}")
        return policy
    opened = (await ledger.read(boards_named([name]))).get(name) if name else None
    if opened is None or opened.family != policy.name:
        raise SettingsError(f"--board: no board of the family {policy.name} is called {name}")
    return policy.board(opened)


def _since_ms(text: str | None) -> int:
    from gateway.runtime.clock import parse_rfc3339

    if text is None:
        return 0
    at_ms = parse_rfc3339(text if "T" in text else f"{text}T00:00:00Z")
    if at_ms is None:
        raise SettingsError("--since: expected a day as 2026-11-20, or an instant as 2026-11-20T12:00:00Z")
    return at_ms
