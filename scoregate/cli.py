"""The `scoregate` command."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from policies.errors import ScoregateError
from scoregate.commands import running
from scoregate.commands.common import Bind, DataDir, fail, settings_of
from scoregate.commands.groups import LightCommand, LoadingGroup
from scoregate.commands.tables import AsJson, show_json
from scoregate.private_files import write_privately

if TYPE_CHECKING:
    from scoregate.parts import Told

GARBAGE_THRESHOLD: Final = 50_000
"""Objects made between two looks for cycles. A request makes hundreds and no cycles; Python's 700 costs a tenth."""

app = typer.Typer(
    cls=LoadingGroup,
    help="An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text: to draw its boxes would take longer than all the rest
)
app.command("status")(running.status)
app.command("reload")(running.reload)


def _version() -> str:
    from importlib.metadata import version

    return version("scoregate")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(_version())
        raise typer.Exit


@app.command()
def up(
    data_dir: DataDir = None, bind: Bind = None, workers: Annotated[int, typer.Option(min=1, max=64)] = 1
) -> None:
    """Start everything on this machine, with nothing configured."""
    from rich.console import Console

    from gateway.runtime.reload import is_terminal_gone
    from scoregate.stack import running_stack

    with running_stack(settings_of(data_dir, bind), workers=workers) as stack:
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(0) if is_terminal_gone() else stack.reload())
        console = Console()
        console.print(f"Scoregate {_version()} is up; its data is in {stack.settings.data_dir}")
        if stack.has_game:
            console.print(f"  the game        {stack.url}/arcade/")
        console.print(f"  the interface   {stack.url}/docs")
        console.print("Ctrl-C ends it.")
        _until_told(stack.keep_up)


@app.command()
def demo(
    exit_after: Annotated[
        bool, typer.Option("--exit", help="End when the script has, with status 1 if it failed.")
    ] = False,
    data_dir: DataDir = None,
    bind: Bind = None,
) -> None:
    """Start everything and watch honest players and cheats meet it."""
    from scoregate.demo.show import show

    raise typer.Exit(show(settings_of(data_dir, bind), exit_after=exit_after))


@app.command()
def serve(bind: Bind = None) -> None:
    """Run the edge."""
    import asyncio

    from gateway.edge.health.gauges import measure_from_threads
    from gateway.edge.listener import listen
    from gateway.runtime.reload import reload_when_asked
    from gateway.wiring import open_edge, put_in_force
    from scoregate.metrics import serving_edge_metrics
    from scoregate.parts import run_part

    settings = settings_of(None, bind)

    async def run(told: Told) -> None:
        async with open_edge(settings) as edge:
            with serving_edge_metrics(settings, measure_from_threads(edge)):
                async with listen(edge):
                    put = partial(put_in_force, edge)
                    reloading = asyncio.create_task(
                        reload_when_asked(told.reload, settings, edge.boards, put)
                    )
                    await told.stop.wait()
                    reloading.cancel()
                    await edge.shutdown.pause(settings.shutdown_pause_s, told.hurry)

    run_part(settings, "edge", run)


@app.command()
def steward() -> None:
    """Run the background duties."""
    from gateway.wiring import open_steward
    from scoregate.metrics import serving_metrics
    from scoregate.parts import do_rounds, run_part

    settings = settings_of()

    async def run(told: Told) -> None:
        with serving_metrics(settings):
            async with open_steward(settings) as duties:
                await do_rounds(duties, settings, told)

    run_part(settings, "steward", run)


@app.command()
def worker(
    lane: Annotated[Literal["main", "urgent"], typer.Option(help="Where its work comes from.")] = "main",
) -> None:
    """Run a worker, which replays and settles."""
    from gateway.runtime.telemetry import configure_logging
    from gateway.steward.dispatch import Lane
    from replay.worker.process import run_worker
    from scoregate.metrics import serving_metrics

    settings = settings_of()
    configure_logging(settings.log_level)
    with serving_metrics(settings):
        run_worker(settings, lane=Lane(lane))


@app.command("backup")
def backup(directory: Path, data_dir: DataDir = None) -> None:
    """Write a backup of a deployment on SQLite into an empty directory, while it runs."""
    from scoregate.backup import back_up

    facts = back_up(settings_of(data_dir), directory)
    keys = ", ".join(facts.keys) or "no key"
    typer.echo(f"{directory}: the ledger up to event {facts.head}, {facts.recordings} recordings, {keys}")
    if facts.lost:
        fail(f"lost before this, and not in the backup: {', '.join(facts.lost)}")


@app.command("restore")
def restore_backup(directory: Path, data_dir: DataDir = None) -> None:
    """Put a backup into an empty data directory."""
    from scoregate.restore import restore

    settings = settings_of(data_dir)
    restored = restore(settings, directory)
    typer.echo(
        f"{settings.data_dir}: the ledger up to event {restored.head}, {restored.recordings} recordings"
    )
    for board in restored.other_policies:
        typer.echo(f"board '{board}' had another policy then")


@app.command("health")
def health(as_json: AsJson = False, bind: Bind = None) -> None:
    """Exit with 0 if the edge here is ready. What a container asks."""
    from scoregate.health import health_of

    health = health_of(settings_of(None, bind))
    if as_json:
        show_json([health.facts()])
    if health.problem:
        fail(f"not ready: {health.problem}")
    if health.is_stale:
        typer.echo("ready; but the policy files were refused, and older ones are in force", err=True)


@app.command("version", cls=LightCommand)
def show_version() -> None:
    """Print the version."""
    typer.echo(_version())


@app.callback()
def whole(
    is_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board."""


def main() -> None:
    """Runs the command; an error that we know is one line, not a traceback. What any command makes is its user's alone."""
    gc.set_threshold(GARBAGE_THRESHOLD)  # most of what a command makes is what it imports
    write_privately()
    try:
        app()
    except ScoregateError as error:
        fail(str(error))
    except Exception as error:
        told = _outside_of_us(error)
        if told is None:
            raise
        fail(told)


def _outside_of_us(error: Exception) -> str | None:
    """What is wrong with a file, a socket or a database, in a sentence; None for a bug of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if type(error).__module__.partition(".")[0] in {"redis", "sqlalchemy", "sqlite3", "asyncpg"}:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no more is known'}"
    return None


def _until_told(work: Callable[[], object]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        work()
