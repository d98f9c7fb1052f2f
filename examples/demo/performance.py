"""The demo's performance: honest players, cheats and a moderator meet a running gateway, over HTTP alone."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from rich.console import Console
from rich.live import Live
from scoregate_client import ScoregateError

from examples.demo.actors import DemoGame, claim_of
from examples.demo.cheats import CHEATS, Cheat
from examples.demo.tally import HONEST, Tally

PLAYERS: Final = (
    *("Ada", "Bao", "Chidi", "Dolores", "Eitan", "Fatima", "Goran", "Hana", "Ines", "Jomo"),
    *("Katya", "Liam", "Mei", "Nadia", "Omar", "Priya", "Quinn", "Rosa", "Sven", "Tala"),
    *("Uma", "Viktor", "Wanda", "Ximena", "Yusuf", "Zoe", "Anselm", "Birgit", "Cyrus", "Daria"),
)
RUNS_EACH: Final = 2
FIRST_CHEAT: Final = 1_000
"""Number of the first cheat among the actors, so that no two actors share an address."""


async def perform(game: DemoGame, moderator_token: str, console: Console) -> tuple[Tally, float]:
    """Let everybody play, and return how the runs ended and how many seconds that took."""
    began = time.monotonic()
    tally = Tally({HONEST: len(PLAYERS) * RUNS_EACH} | {cheat.kind: cheat.tries for cheat in CHEATS})
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        showing = asyncio.create_task(_keep_showing(live, game, tally, began))
        honest = [_play_honestly(game, tally, name, number) for number, name in enumerate(PLAYERS)]
        cheats = [
            _cheat(game, tally, cheat, FIRST_CHEAT + 10 * place + number)
            for place, cheat in enumerate(CHEATS)
            for number in range(cheat.tries)
        ]
        await asyncio.gather(*honest, *cheats)
        await _moderate(game.url, moderator_token, tally)
        showing.cancel()
    return tally, time.monotonic() - began


async def _play_honestly(game: DemoGame, tally: Tally, name: str, number: int) -> None:
    rng = random.Random(number)
    skill = rng.uniform(0.1, 0.8)
    async with _noting_failures(tally, name), game.actor(name, number) as actor:
        tally.seen_playing.add(actor.player)
        await asyncio.sleep(rng.uniform(0, 2))
        for _ in range(RUNS_EACH):
            run = await actor.open_run()
            played = await actor.play(run, skill, rng.randint(300, 500))
            tally.note(HONEST, await actor.ending(await actor.send(run, claim_of(played))))


async def _cheat(game: DemoGame, tally: Tally, cheat: Cheat, number: int) -> None:
    async with _noting_failures(tally, cheat.kind), game.actor(f"Cheat {number}", number) as actor:
        # Spread over six seconds, so that the table grows while it is watched.
        await asyncio.sleep(random.Random(number).uniform(0, 6))
        tally.note(cheat.kind, await cheat.attack(game, actor))


@asynccontextmanager
async def _noting_failures(tally: Tally, who: str) -> AsyncIterator[None]:
    """Note a failure of the demo itself, which fails it at the end, and let the other actors go on."""
    try:
        yield
    except (aiohttp.ClientError, ScoregateError, TimeoutError, KeyError) as error:
        tally.failures.append(f"{who}: {type(error).__name__}: {error}")


async def _moderate(url: str, token: str, tally: Tally) -> None:
    """Approve held runs of players who were seen playing, as a newcomer's record, and leave the others."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        _noting_failures(tally, "moderator"),
        aiohttp.ClientSession(url, headers=headers, raise_for_status=True) as session,
    ):
        async with session.get("/v1/moderation/queue") as response:
            cases = (await response.json())["cases"]
        for case in cases:
            if case["player"] not in tally.seen_playing:
                tally.left += 1
                continue
            path = f"/v1/moderation/cases/{case['submission']}/approve"
            approval = {"code": "plausible", "note": "seen playing", "message": "checked"}
            async with session.post(path, json=approval, headers={"If-Match": case["etag"]}):
                tally.note_approval()


async def _keep_showing(live: Live, game: DemoGame, tally: Tally, began: float) -> None:
    while True:
        live.update(tally.table(f"{time.monotonic() - began:3.0f} s   {game.url}/arcade/"))
        await asyncio.sleep(0.25)
