"""Real runs of the real game, played fast for tests: `play_run` gives what an honest client would submit."""

from __future__ import annotations

import base64
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from scoregate_client import encode_recording

from examples.arcade.players import (
    CHECKPOINT_TICKS,
    STATS,
    STATS_AT,
    STATS_OFFSET,
    Arcade,
    ArcadeRun,
    Hands,
    habits,
    play,
)

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "examples" / "arcade" / "arcade.wasm"
BUILD = "arcade-1"
GIVE_UP = 32
"""The button that ends a run."""


@lru_cache(maxsize=1)
def arcade() -> Arcade:
    return Arcade(MODULE)


def play_run(seed: int | str, *, skill: float = 0.4, max_ticks: int = 300, luck: int = 1) -> dict[str, Any]:
    """The body of an honest submission for a run with this seed."""
    played = play(arcade(), int(seed), skill, random.Random(luck), max_ticks)
    recording = encode_recording(played.inputs, played.checkpoints, 60)
    return {
        "score": played.score,
        "ticks": played.ticks,
        "stats": dict(played.stats),
        "recording": base64.b64encode(recording).decode(),
    }


def give_up(module: Arcade, seed: int, skill: float, rng: random.Random, max_ticks: int) -> ArcadeRun:
    """Like `play`, but the player ends the run after `max_ticks`, so that it takes no longer."""
    session, hands = module.open(seed), Hands(habits(skill), rng)
    inputs: list[int] = []
    checkpoints: list[int] = []
    goes_on = True
    while goes_on:
        inputs.append(hands.word(session.look()) if len(inputs) < max_ticks else GIVE_UP)
        goes_on = session.tick(inputs[-1])
        if len(inputs) % CHECKPOINT_TICKS == 0:
            checkpoints.append(session.state_hash())
    stats = dict(zip(STATS, STATS_AT.unpack_from(session.look(), STATS_OFFSET), strict=True))
    return ArcadeRun(seed, inputs, session.score(), len(inputs), stats, checkpoints, is_over=True)
