"""The demonstration from curtain to curtain."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import aiohttp
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.tokens import MODERATOR_TOKEN_S, Bearer, Role, Tokens
from gateway.runtime.settings import Settings
from scoregate.demo.cheats import CHEATS, Cheat
from scoregate.demo.client import ScoregateError
from scoregate.demo.stage import BOARD, Stage, claim_of, open_stage
from scoregate.demo.tally import HONEST, Tally
from scoregate.stack import Stack, free_bind, running_stack

PLAYERS: Final = (
    *("Ada", "Bao", "Chidi", "Dolores", "Eitan", "Fatima", "Goran", "Hana", "Ines", "Jomo"),
    *("Katya", "Liam", "Mei", "Nadia", "Omar", "Priya", "Quinn", "Rosa", "Sven", "Tala"),
    *("Uma", "Viktor", "Wanda", "Ximena", "Yusuf", "Zoe", "Anselm", "Birgit", "Cyrus", "Daria"),
)
RUNS_EACH: Final = 2
BEHIND_US: Final = {"SCOREGATE_TRUSTED_PROXIES": "127.0.0.1,::1"}
"""Each actor says that it comes from an address of its own."""
CHEATS_FROM: Final = 1_000
"""Number of the first cheat among the actors, so that no two share an address."""


def show(settings: Settings, *, exit_after: bool) -> int:
    """The exit status: 0 if every honest run reached the board and no cheat did."""
    console = Console()
    with (
        _leaving_when_told(),
        _place(settings) as place,
        running_stack(place, workers=1, variables=BEHIND_US) as stack,
    ):
        tally, took_s = asyncio.run(_play(stack, console))
        _close(console, stack, tally, took_s)
        if not exit_after:
            console.print("It stays up for you to play. Ctrl-C ends it.")
            with suppress(KeyboardInterrupt):
                stack.keep_up()
    return 0 if tally.is_good else 1


@contextmanager
def _leaving_when_told() -> Iterator[None]:
    """End the demonstration on SIGTERM as a shell expects, through everything that cleans up after it."""
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


@contextmanager
def _place(settings: Settings) -> Iterator[Settings]:
    """The settings with a data directory that goes with the demonstration, and a port that is free."""
    with tempfile.TemporaryDirectory(prefix="scoregate-demo-", ignore_cleanup_errors=True) as folder:
        given = settings.model_fields_set
        changes = {} if "data_dir" in given else {"data_dir": Path(folder)}
        yield settings.model_copy(
            update=changes | ({} if "bind" in given else {"bind": free_bind(settings.bind)})
        )


async def _play(stack: Stack, console: Console) -> tuple[Tally, float]:
    """What happened, and how many seconds it took."""
    began = time.monotonic()
    tally = Tally({HONEST: len(PLAYERS) * RUNS_EACH} | {cheat.kind: cheat.tries for cheat in CHEATS})
    stage = open_stage(stack.url, stack.settings.arcade_dir / "arcade.wasm")
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        showing = asyncio.create_task(_keep_showing(live, stage, tally, began))
        honest = [_honest(stage, tally, name, number) for number, name in enumerate(PLAYERS)]
        cheats = [
            _cheat(stage, tally, cheat, CHEATS_FROM + 10 * place + number)
            for place, cheat in enumerate(CHEATS)
            for number in range(cheat.tries)
        ]
        await asyncio.gather(*honest, *cheats)
        await _moderate(stack, tally)
        showing.cancel()
    return tally, time.monotonic() - began


async def _honest(stage: Stage, tally: Tally, name: str, number: int) -> None:
    rng = random.Random(number)  # noqa: S311 - it casts a player
    skill = rng.uniform(0.1, 0.8)
    async with _watched(tally, name), stage.actor(name, number) as actor:
        tally.seen_playing.add(actor.player)
        await asyncio.sleep(rng.uniform(0, 2))
        for _ in range(RUNS_EACH):
            run = await actor.open_run()
            played = await actor.play(run, skill, rng.randint(300, 500))
            tally.note(HONEST, await actor.ending(await actor.send(run, claim_of(played))))


async def _cheat(stage: Stage, tally: Tally, cheat: Cheat, number: int) -> None:
    async with _watched(tally, cheat.kind), stage.actor(f"Cheat {number}", number) as actor:
        await asyncio.sleep(random.Random(number).uniform(0, 6))  # noqa: S311 - it spreads the table's growth
        tally.note(cheat.kind, await cheat.act(stage, actor))


@asynccontextmanager
async def _watched(tally: Tally, who: str) -> AsyncIterator[None]:
    """Has what goes wrong on our side fail the demonstration with a word on it, and the others go on."""
    try:
        yield
    except (aiohttp.ClientError, ScoregateError, TimeoutError, KeyError) as error:
        tally.failures.append(f"{who}: {type(error).__name__}: {error}")


async def _moderate(stack: Stack, tally: Tally) -> None:
    """A moderator looks at what is held: approves of whom they saw playing, as with a newcomer's record, and rejects others."""
    now_s = int(time.time())
    bearer = Bearer("demo-moderator", Role.MODERATOR, now_s + MODERATOR_TOKEN_S, ("*",))
    token = Tokens(keyring_of(stack.settings)).mint(bearer, now_s=now_s)
    async with (
        _watched(tally, "moderator"),
        aiohttp.ClientSession(
            stack.url, headers={"Authorization": f"Bearer {token}"}, raise_for_status=True
        ) as session,
    ):
        async with session.get(f"/v1/boards/{BOARD}/held") as response:
            held = (await response.json())["submissions"]
        for case in held:
            is_known = case["player"] in tally.seen_playing
            why = "seen playing" if is_known else f"inhuman play: {case['findings'][0]['meaning']}"
            decision = f"/v1/moderation/{case['submission']}/{'approve' if is_known else 'reject'}"
            async with session.post(decision, json={"reason": why}, headers={"If-Match": case["etag"]}):
                if is_known:
                    tally.note_approval()
                else:
                    tally.rejected += 1


async def _keep_showing(live: Live, stage: Stage, tally: Tally, began: float) -> None:
    while True:
        live.update(tally.table(f"{time.monotonic() - began:3.0f} s   {stage.url}/arcade/"))
        await asyncio.sleep(0.25)


def _close(console: Console, stack: Stack, tally: Tally, took_s: float) -> None:
    """Prints the end: the table, the board, the totals, and where to go from here."""
    console.print(tally.table("What each layer stopped"))
    console.print(_board(stack.url))
    honest = tally.expected[HONEST]
    cheats = sum(count for kind, count in tally.expected.items() if kind != HONEST)
    console.print(
        f"[bold]{honest - tally.honest_lost}[/] of {honest} honest runs are on the board, "
        f"[bold]{tally.cheats_through}[/] of {cheats} cheats got through; "
        f"{tally.approved + tally.rejected} held for a moderator, who rejected {tally.rejected}. {took_s:.0f} s."
    )
    for failure in tally.failures:
        console.print(failure, style="red", markup=False)
    console.print(f"\n  play it yourself   {stack.url}/arcade/\n  the interface      {stack.url}/docs\n")


def _board(url: str) -> Table:
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
