"""The `scoregate` command."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from gateway.edge.credentials.tokens import MODERATOR_TOKEN_S, Bearer, Role, Tokens
from gateway.settings import Settings
from gateway.telemetry import configure_logging
from gateway.wiring import keyring_of, open_edge, open_steward
from policies.errors import ScoregateError
from policies.loader import load_board
from scoregate.commands import boards, keys, ledgers, webhooks
from scoregate.commands.common import Bind, DataDir, fail, settings_beside, settings_of
from scoregate.metrics import serving_metrics

app = typer.Typer(
    help="An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
token_app = typer.Typer(help="Mint bearer tokens.", no_args_is_help=True)
policy_app = typer.Typer(help="Look at policy files.", no_args_is_help=True)
derived_app = typer.Typer(help="Make what is derived from the ledger anew.", no_args_is_help=True)
app.add_typer(token_app, name="token")
app.add_typer(keys.app, name="key")
app.add_typer(policy_app, name="policy")
app.add_typer(boards.app, name="board")
app.add_typer(ledgers.app, name="ledger")
app.add_typer(webhooks.app, name="webhook")
app.add_typer(derived_app, name="derived")

GARBAGE_THRESHOLD: Final = 50_000
"""Objects made between two looks for cycles. A request makes hundreds and no cycles; Python's 700 costs a tenth."""


@app.command()
def up(
    data_dir: DataDir = None, bind: Bind = None, workers: Annotated[int, typer.Option(min=1, max=64)] = 1
) -> None:
    """Start everything on this machine, with nothing configured."""
    from scoregate.stack import running_stack

    with running_stack(settings_of(data_dir, bind), workers=workers) as stack:
        console = Console()
        console.print(f"Scoregate {version('scoregate')} is up; its data is in {stack.settings.data_dir}")
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
    from gateway.edge.listener import listening

    settings = settings_of(None, bind)

    async def run(stop: asyncio.Event) -> None:
        async with open_edge(settings) as edge, listening(edge):
            await stop.wait()

    _run_part(settings, run)


@app.command()
def steward() -> None:
    """Run the background duties."""
    settings = settings_of()

    async def run(stop: asyncio.Event) -> None:
        with serving_metrics(settings):
            await do_rounds(stop)

    async def do_rounds(stop: asyncio.Event) -> None:
        async with open_steward(settings) as duties:
            rounds = asyncio.create_task(duties.run())
            told = asyncio.create_task(stop.wait())
            await asyncio.wait({rounds, told}, return_when=asyncio.FIRST_COMPLETED)
            rounds.cancel()
            with suppress(asyncio.CancelledError):
                await rounds

    _run_part(settings, run)


@app.command()
def worker() -> None:
    """Run a worker, which replays and settles."""
    from replay.worker.process import run_worker

    settings = settings_of()
    configure_logging(settings.log_level)
    with serving_metrics(settings):
        run_worker(settings)


@token_app.command("moderator")
def token_moderator(
    name: str,
    board: Annotated[
        list[str] | None, typer.Option(help="A board the moderator decides on; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Print a moderator's bearer token, good for 12 hours."""
    import time

    now_s = int(time.time())
    bearer = Bearer(name, Role.MODERATOR, now_s + MODERATOR_TOKEN_S, tuple(board or ["*"]))
    typer.echo(Tokens(keyring_of(settings_of(data_dir))).mint(bearer, now_s=now_s))


@policy_app.command("check")
def policy_check(files: list[Path]) -> None:
    """Say whether policy files are right, and if not, where and why."""
    for file in files:
        board = load_board(file)
        typer.echo(f"{file}: board '{board.name}', {board.digest}")
        for kind, resolution_ms in board.policy.tie_resolutions_ms.items():
            typer.echo(f"  {kind.value}: equal scores {resolution_ms} ms apart rank by who was first")


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


@derived_app.command("rebuild")
def derived_rebuild(name: str, data_dir: DataDir = None) -> None:
    """Have the steward make `statistics`, `trends` or `achievements` anew from the ledger."""
    from scoregate.derived import rebuild

    asyncio.run(rebuild(settings_beside(data_dir), name))
    typer.echo(f"{name} begins again; the steward is at it")


@app.command("health")
def health(bind: Bind = None) -> None:
    """Exit with 0 if the edge here is ready. What a container asks."""
    from scoregate.health import problem_with

    problem = problem_with(settings_of(None, bind))
    if problem:
        fail(f"not ready: {problem}")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(version("scoregate"))


def main() -> None:
    """Runs the command; an error that we know is one line, not a traceback."""
    try:
        app()
    except ScoregateError as error:
        fail(str(error))


def _run_part(settings: Settings, run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    configure_logging(settings.log_level)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(stop)

    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(until_stopped())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _until_told(work: Callable[[], object]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        work()
