"""`scoregate demo`: start everything and let the players and cheats of examples/demo meet it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scoregate.commands.common import Bind, DataDir, console, print_first_admin, print_line, settings_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from examples.demo.tally import Tally
    from gateway.runtime.settings import Settings
    from scoregate.stack import Stack

TRUST_OUR_PROXY: Final = {"SCOREGATE_TRUSTED_PROXIES": "127.0.0.1,::1"}
"""The edge believes the address that each actor names in `X-Forwarded-For`."""


def demo(
    exit_after: Annotated[
        bool, typer.Option("--exit", help="Exit when the demo is over, with status 1 if it failed.")
    ] = False,
    data_dir: DataDir = None,
    bind: Bind = None,
) -> None:
    """Start everything and watch honest players and cheats meet it."""
    raise typer.Exit(_show(settings_of(data_dir, bind), exit_after=exit_after))


def _show(settings: Settings, *, exit_after: bool) -> int:
    """Return the exit status: 0 if every honest run reached the board and no cheat did."""
    import asyncio

    from examples.demo.actors import open_game
    from examples.demo.performance import perform
    from scoregate.stack import running_stack

    screen = console()
    with (
        _ending_on_sigterm(),
        _temporary(settings) as temporary,
        running_stack(temporary, variables=TRUST_OUR_PROXY) as stack,
    ):
        game = open_game(stack.url, stack.settings.arcade_dir / "arcade.wasm")
        tally, took_s = asyncio.run(perform(game, _moderator_token(stack.settings), screen))
        _print_end(screen, stack, tally, took_s)
        if not exit_after:
            screen.print("The demo stays up for you to play. Ctrl-C ends it.")
            with suppress(KeyboardInterrupt):
                stack.keep_up()
    return 0 if tally.is_good else 1


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Exit on SIGTERM with the status that a shell expects, and clean up on the way."""
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, _frame: object) -> None:
    sys.exit(128 + number)


@contextmanager
def _temporary(settings: Settings) -> Iterator[Settings]:
    """Yield the settings with a temporary data directory and a free port, unless they name their own."""
    import tempfile

    from scoregate.stack import free_bind

    with tempfile.TemporaryDirectory(prefix="scoregate-demo-", ignore_cleanup_errors=True) as folder:
        changes: dict[str, object] = {}
        if "data_dir" not in settings.model_fields_set:
            changes["data_dir"] = Path(folder)
        if "bind" not in settings.model_fields_set:
            changes["bind"] = free_bind(settings.bind)
        yield settings.model_copy(update=changes)


def _moderator_token(settings: Settings) -> str:
    from gateway.edge.auth.moderators import ModeratorRole
    from scoregate.commands.common import finish
    from scoregate.moderator_accounts import issue_token

    return finish(issue_token(settings, "demo-moderator", [], ModeratorRole.MODERATOR, hours=1))


def _print_end(screen: Console, stack: Stack, tally: Tally, took_s: float) -> None:
    """Print the table of layers, the board, the totals, and where to go from here."""
    from examples.demo.tally import HONEST

    screen.print(tally.table("What each layer stopped"))
    screen.print(_board(stack.url))
    honest = tally.expected[HONEST]
    cheats = sum(count for kind, count in tally.expected.items() if kind != HONEST)
    screen.print(
        f"[bold]{honest - tally.honest_lost}[/] of {honest} honest runs are on the board, "
        f"[bold]{tally.cheats_through}[/] of {cheats} cheats got through; "
        f"of {tally.approved + tally.left} held a moderator approved {tally.approved}, "
        f"and left {tally.left} for you. "
        f"{took_s:.0f} s."
    )
    for failure in tally.failures:
        screen.print(failure, style="red", markup=False)
    screen.print()
    print_line(screen, f"  play it yourself   {stack.url}/arcade/\n  the interface      {stack.url}/docs")
    variables = f"export BASE={stack.url} SCOREGATE_DATA_DIR={stack.settings.data_dir}"
    print_line(screen, f"  commands beside it {variables}")
    print_first_admin(screen, stack.settings, "  be the moderator   ")
    screen.print()


def _board(url: str) -> Table:
    from urllib.request import urlopen

    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from examples.demo.actors import BOARD

    table = Table(
        title="The board", title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1)
    )
    table.add_column("rank", justify="right")
    table.add_column("player")
    table.add_column("score", justify="right")
    with urlopen(f"{url}/v1/boards/{BOARD}/entries?limit=10") as response:  # noqa: S310 - our own edge
        page = json.load(response)
    for entry in page["entries"]:
        table.add_row(str(entry["rank"]), Text(entry["name"]), f"{entry['score']:,}")
    table.caption = f"{page['total']} players in all"
    return table
