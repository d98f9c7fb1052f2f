"""The cheats of the demonstration: one function per kind, each in earnest."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from scoregate.demo.stage import PROBLEM_LAYERS, Actor, Layer, Reply, Stage, claim_of, with_inputs

SHORT_TICKS: Final = 300
FLOOD: Final = 400
LOOKED_INTO: Final = 5
MACHINE_TICKS: Final = 1900
REWRITTEN_TICKS: Final = range(60, 90)

Act = Callable[[Stage, Actor], Awaitable[Layer]]


@dataclass(frozen=True, slots=True)
class Cheat:
    """A kind of cheat, the layer that is meant for it, how many try it, and what they do."""

    kind: str
    layer: Layer
    tries: int
    act: Act


async def edit_score(_stage: Stage, actor: Actor) -> Layer:
    """Plays honestly and then claims more."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS)
    return await actor.ending(await actor.send(run, claim_of(played, score=played.score + 500)))


async def forge_signature(_stage: Stage, actor: Actor) -> Layer:
    """Signs with a key of its own making."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played), key=secrets.token_bytes(32)))


async def replay_request(_stage: Stage, actor: Actor) -> Layer:
    """Sends one run twice: first a rejected one, then the same run with a better claim."""
    run = await actor.open_run()
    played = await actor.play(run, 0.3, SHORT_TICKS)
    body, headers = actor.sign(run, claim_of(played, score=played.score + 10), run.key)
    first = await actor.send_bytes(body, headers)
    again = await actor.send_bytes(body, headers)
    if again.document.get("submission") != first.document.get("submission"):
        return Layer.BOARD  # a second row: the replay worked
    await actor.ending(first)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def steal_recording(stage: Stage, actor: Actor) -> Layer:
    """Sends another player's recording under a ticket of its own."""
    async with stage.actor("Victim", secrets.randbelow(200)) as victim:
        played = await victim.play(await victim.open_run(), 0.6, SHORT_TICKS)
    run = await actor.open_run()
    await asyncio.sleep(played.ticks / 60)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def exceed_bound(_stage: Stage, actor: Actor) -> Layer:
    """Claims more than the game can give."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played, score=99_999_990)))


async def outpace_the_clock(_stage: Stage, actor: Actor) -> Layer:
    """Plays a whole run in no time."""
    run = await actor.open_run()
    played = await actor.play(run, 0.5, SHORT_TICKS, in_real_time=False)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def tamper_with_recording(_stage: Stage, actor: Actor) -> Layer:
    """Keeps the result and rewrites the inputs that led to it."""
    run = await actor.open_run()
    played = await actor.play(run, 0.4, SHORT_TICKS)
    inputs = [word ^ 1 if tick in REWRITTEN_TICKS else word for tick, word in enumerate(played.inputs)]
    return await actor.ending(await actor.send(run, claim_of(with_inputs(played, inputs))))


async def use_foreign_ticket(stage: Stage, actor: Actor) -> Layer:
    """Submits for another player's run: with that ticket, its stolen key, and its own token."""
    async with stage.actor("Victim", secrets.randbelow(200)) as victim:
        run = await victim.open_run()
        played = await victim.play(run, 0.4, SHORT_TICKS, in_real_time=False)
    guessed = await actor.send(run, claim_of(played), key=(await actor.open_run()).key)
    stolen = await actor.send(run, claim_of(played), token=actor.client.token)
    return await _worse_of(actor, guessed, stolen)


async def flood(_stage: Stage, actor: Actor) -> Layer:
    """Sends hundreds of made-up claims as fast as it can."""
    run = await actor.open_run()
    played = await actor.play(run, 0.3, SHORT_TICKS, in_real_time=False)
    replies = await asyncio.gather(
        *(actor.send(run, claim_of(played, score=10 * number)) for number in range(FLOOD))
    )
    seen = Counter(PROBLEM_LAYERS[reply.problem] for reply in replies if reply.problem)
    accepted = [reply for reply in replies if not reply.problem]
    if len(accepted) > 1 or (accepted and await actor.ending(accepted[0]) is Layer.BOARD):
        return Layer.BOARD
    return Layer.LIMITS if seen[Layer.LIMITS] else Layer.SIGNATURE


async def play_like_a_machine(_stage: Stage, actor: Actor) -> Layer:
    """Lets a program play: every input is real, on the luckiest of a few seeds it looked into beforehand."""
    runs = [await actor.open_run() for _ in range(LOOKED_INTO)]
    foreseen = [await actor.play(run, 1.0, MACHINE_TICKS, in_real_time=False) for run in runs]
    run = runs[foreseen.index(max(foreseen, key=lambda played: played.score))]
    played = await actor.play(run, 1.0, MACHINE_TICKS)
    return await actor.ending(await actor.send(run, claim_of(played)))


async def _worse_of(actor: Actor, *replies: Reply) -> Layer:
    """Where the attempt that got furthest ended."""
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
