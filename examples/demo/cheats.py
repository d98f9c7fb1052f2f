"""Cheats of the demo: one function for each kind. Every one of them really tries."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from examples.demo.actors import (
    PROBLEM_LAYERS,
    TICKS_PER_SECOND,
    Actor,
    DemoGame,
    Layer,
    Reply,
    claim_of,
    with_inputs,
)

SHORT_TICKS: Final = 300
FLOOD_CLAIMS: Final = 400
SEEDS_TRIED: Final = 5
MACHINE_TICKS: Final = 1900
REWRITTEN_TICKS: Final = range(60, 90)

Attack = Callable[[DemoGame, Actor], Awaitable[Layer]]


@dataclass(frozen=True, slots=True)
class Cheat:
    """A kind of cheat, the layer that should stop it, the number of cheats who try it, and their attack."""

    kind: str
    layer: Layer
    tries: int
    attack: Attack


async def edit_score(_game: DemoGame, actor: Actor) -> Layer:
    """Play honestly, then claim more."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS)
    return await actor.ending(await actor.send(run, claim_of(played, score=played.score + 500)))


async def forge_signature(_game: DemoGame, actor: Actor) -> Layer:
    """Sign with a made-up key."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played), key=secrets.token_bytes(32)))


async def replay_request(_game: DemoGame, actor: Actor) -> Layer:
    """Send the same bytes twice, then a better claim for the same run, whose first one was rejected."""
    run = await actor.open_run()
    played = await actor.play(run, 0.3, SHORT_TICKS)
    body, headers = actor.sign(run, claim_of(played, score=played.score + 10), run.key)
    first = await actor.send_bytes(body, headers)
    again = await actor.send_bytes(body, headers)
    if again.document.get("submission") != first.document.get("submission"):
        return Layer.BOARD  # a second submission exists, so the repeated request worked
    await actor.ending(first)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def steal_recording(game: DemoGame, actor: Actor) -> Layer:
    """Send another player's recording under its own ticket."""
    async with game.actor("Victim", secrets.randbelow(200)) as victim:
        played = await victim.play(await victim.open_run(), 0.6, SHORT_TICKS)
    run = await actor.open_run()
    await asyncio.sleep(played.ticks / TICKS_PER_SECOND)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def exceed_bound(_game: DemoGame, actor: Actor) -> Layer:
    """Claim more than the game can give."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played, score=99_999_990)))


async def outpace_the_clock(_game: DemoGame, actor: Actor) -> Layer:
    """Play a whole run in no time."""
    run = await actor.open_run()
    played = await actor.play(run, 0.5, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def tamper_with_recording(_game: DemoGame, actor: Actor) -> Layer:
    """Keep the result and rewrite the inputs that led to it."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS)
    inputs = [word ^ 1 if tick in REWRITTEN_TICKS else word for tick, word in enumerate(played.inputs)]
    return await actor.ending(await actor.send(run, claim_of(with_inputs(played, inputs))))


async def use_foreign_ticket(game: DemoGame, actor: Actor) -> Layer:
    """Submit for another player's run: with its own run's key, then with the stolen key and its own token."""
    async with game.actor("Victim", secrets.randbelow(200)) as victim:
        run = await victim.open_run()
        played = await victim.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    guessed = await actor.send(run, claim_of(played), key=(await actor.open_run()).key)
    stolen = await actor.send(run, claim_of(played), token=actor.client.token)
    return await _furthest_of(actor, guessed, stolen)


async def flood(_game: DemoGame, actor: Actor) -> Layer:
    """Send hundreds of made-up claims at once."""
    run = await actor.open_run()
    played = await actor.play(run, 0.3, SHORT_TICKS, in_real_time=False)
    claims = [claim_of(played, score=10 * number) for number in range(FLOOD_CLAIMS)]
    replies = await asyncio.gather(*(actor.post(*actor.sign(run, claim, run.key)) for claim in claims))
    refusals = Counter(PROBLEM_LAYERS[reply.problem] for reply in replies if reply.problem)
    accepted = [reply for reply in replies if not reply.problem]
    if len(accepted) > 1 or (accepted and await actor.ending(accepted[0]) is Layer.BOARD):
        return Layer.BOARD
    return Layer.LIMITS if refusals[Layer.LIMITS] else Layer.SIGNATURE


async def play_like_a_machine(_game: DemoGame, actor: Actor) -> Layer:
    """Let a program play the luckiest of a few seeds that it tried beforehand. Every input is real."""
    runs = [await actor.open_run() for _ in range(SEEDS_TRIED)]
    foreseen = [await actor.play(run, 1.0, MACHINE_TICKS, in_real_time=False) for run in runs]
    run = runs[foreseen.index(max(foreseen, key=lambda played: played.score))]
    played = await actor.play(run, 1.0, MACHINE_TICKS)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def _furthest_of(actor: Actor, *replies: Reply) -> Layer:
    """Return the layer that the most successful attempt reached."""
    endings = [await actor.ending(reply) for reply in replies]
    return max(endings, key=list(Layer).index)


CHEATS: Final = (
    Cheat("flood", Layer.LIMITS, 1, flood),
    Cheat("score above bound", Layer.BOUNDS, 3, exceed_bound),
    Cheat("impossible velocity", Layer.BOUNDS, 3, outpace_the_clock),
    Cheat("forged signature", Layer.SIGNATURE, 3, forge_signature),
    Cheat("replayed request", Layer.SIGNATURE, 3, replay_request),
    Cheat("foreign ticket", Layer.SIGNATURE, 3, use_foreign_ticket),
    Cheat("machine at play", Layer.ANOMALY, 2, play_like_a_machine),
    Cheat("edited score", Layer.REPLAY, 3, edit_score),
    Cheat("stolen recording", Layer.REPLAY, 3, steal_recording),
    Cheat("tampered recording", Layer.REPLAY, 3, tamper_with_recording),
)
