"""Real runs of the real game, played fast for tests: `play_run` gives what an honest client would submit."""

from __future__ import annotations

import base64
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from scoregate_client import encode_recording

from examples.arcade.players import Arcade, play

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "examples" / "arcade" / "arcade.wasm"
BUILD = "arcade-1"


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
