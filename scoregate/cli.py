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
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console

from gateway.edge.tokens import MODERATOR_TOKEN_S, Bearer, Role, Tokens
from gateway.settings import Settings, load_settings
from gateway.telemetry import configure_logging
from gateway.wiring import keyring_of, open_edge, open_steward
from policies.errors import ScoregateError
from policies.loader import load_board

app = typer.Typer(
    help="An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
token_app = typer.Typer(help="Mint bearer tokens.", no_args_is_help=True)
key_app = typer.Typer(help="Register trusted servers.", no_args_is_help=True)
policy_app = typer.Typer(help="Look at policy files.", no_args_is_help=True)
app.add_typer(token_app, name="token")
app.add_typer(key_app, name="key")
app.add_typer(policy_app, name="policy")

GARBAGE_THRESHOLD: Final = 50_000
"""Objects made between two looks for cycles. A request makes hundreds and no cycles; Python's 700 costs a tenth."""

_err = Console(stderr=True)

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where everything is kept. SCOREGATE_DATA_DIR.")
]
Bind = Annotated[str | None, typer.Option("--bind", help="Host and port to answer on. SCOREGATE_BIND.")]


@app.command()
def up(
    data_dir: DataDir = None, bind: Bind = None, workers: Annotated[int, typer.Option(min=1, max=64)] = 1
) -> None:
    """Start everything on this machine, with nothing configured."""
    from scoregate.stack import running_stack

    with running_stack(_settings(data_dir, bind), workers=workers) as stack:
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

    raise typer.Exit(show(_settings(data_dir, bind), exit_after=exit_after))


@app.command()
def serve(bind: Bind = None) -> None:
    """Run the edge."""
    from gateway.edge.listener import listening

    settings = _settings(None, bind)

    async def run(stop: asyncio.Event) -> None:
        async with open_edge(settings) as edge, listening(edge):
            await stop.wait()

    _run_part(settings, run)


@app.command()
def steward() -> None:
    """Run the background duties."""
    settings = _settings()

    async def run(stop: asyncio.Event) -> None:
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
    from replay.worker import run_worker

    settings = _settings()
    configure_logging(settings.log_level)
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
    typer.echo(Tokens(keyring_of(_settings(data_dir))).mint(bearer, now_s=now_s))


@key_app.command("add")
def key_add(
    key_id: str,
    public_key: Annotated[str, typer.Option(help="The Ed25519 public key: 32 bytes in base64.")],
    board: Annotated[
        list[str] | None, typer.Option(help="A board the server writes to; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register a trusted server's public key."""
    from scoregate.keys import register

    asyncio.run(register(_settings(data_dir), key_id, public_key, tuple(board or ["*"])))
    typer.echo(f"registered {key_id}; a running edge knows it within two seconds")


@policy_app.command("check")
def policy_check(files: list[Path]) -> None:
    """Say whether policy files are right, and if not, where and why."""
    for file in files:
        board = load_board(file)
        typer.echo(f"{file}: board '{board.name}', {board.digest}")


@app.command("health")
def health(bind: Bind = None) -> None:
    """Exit with 0 if the edge here is ready. What a container asks."""
    from scoregate.health import problem_with

    problem = problem_with(_settings(None, bind))
    if problem:
        _fail(f"not ready: {problem}")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(version("scoregate"))


def main() -> None:
    """Runs the command; an error that we know is one line, not a traceback."""
    try:
        app()
    except ScoregateError as error:
        _fail(str(error))


def _settings(data_dir: Path | None = None, bind: str | None = None) -> Settings:
    given = {"data_dir": data_dir, "bind": bind}
    return load_settings(**{name: value for name, value in given.items() if value is not None})


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


def _fail(message: str) -> NoReturn:
    _err.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(2)
