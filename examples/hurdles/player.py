"""A headless player of Hurdles: sees the game's state, jumps in time, and records what a client records.

    python player.py hurdles.wasm --seed 7 > run-7.json

writes one run as `scoregate sim` reads it. Floats and chance are fine here: only the recorded words count.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoregate_client import encode_recording
from wasmtime import Engine, Instance, Module, Store

CHECKPOINT_TICKS = 60
STATS = ("cleared", "close_calls", "jumps")

# The record behind view(), in the order of `State` in hurdles.zig.
STATE = struct.Struct("<Qq 10i 16i")
SPEED, HEIGHT, CLEARED = 5, 6, slice(8, 11)
FIRST_HURDLE = 12

PIXEL = 256
RUNNER_FRONT = 70 * PIXEL
HOLD_TICKS = 14


@dataclass(frozen=True)
class HurdlesRun:
    """A finished run as a client would submit it, without a signature."""

    seed: int
    inputs: list[int]
    checkpoints: list[int]
    score: int
    stats: dict[str, int]

    def recording(self, every: int = CHECKPOINT_TICKS) -> bytes:
        """Return the recording, with a checkpoint every `every` ticks."""
        return encode_recording(self.inputs, self.checkpoints, every)

    def as_run(self) -> dict[str, Any]:
        """Return the run as `scoregate sim` reads it."""
        return {
            "seed": str(self.seed),
            "score": self.score,
            "ticks": len(self.inputs),
            "stats": self.stats,
            "recording": base64.b64encode(self.recording()).decode(),
        }


def play(
    module: Path | str, seed: int, rng: random.Random, *, clumsy: float = 0.15, every: int = CHECKPOINT_TICKS
) -> HurdlesRun:
    """Play a run as a player who misjudges a jump with the probability `clumsy`."""
    store = Store(engine := Engine())
    game = Instance(store, Module.from_file(engine, str(module)), []).exports(store)
    game["start"](store, seed - (1 << 64) if seed >> 63 else seed)
    inputs, checkpoints, hold_ticks, goes_on = [], [], 0, 1
    while goes_on:
        at = game["view"](store)
        if hold_ticks == 0 and _has_to_jump(game["memory"].read(store, at, at + STATE.size), rng):
            hold_ticks = 1 if rng.random() < clumsy else HOLD_TICKS
        word = int(hold_ticks > 0)
        hold_ticks -= word
        goes_on = game["tick"](store, word)
        inputs.append(word)
        if len(inputs) % every == 0:
            checkpoints.append(game["state_hash"](store) & 0xFFFF_FFFF_FFFF_FFFF)
    at = game["view"](store)
    state = STATE.unpack(game["memory"].read(store, at, at + STATE.size))
    return HurdlesRun(
        seed, inputs, checkpoints, game["score"](store), dict(zip(STATS, state[CLEARED], strict=True))
    )


def _has_to_jump(raw: bytes, rng: random.Random) -> bool:
    """Return whether the runner is on the ground and the next hurdle is near."""
    state = STATE.unpack(raw)
    ahead = [
        state[place]
        for place in range(FIRST_HURDLE, FIRST_HURDLE + 16, 4)
        if state[place + 1] and state[place] > RUNNER_FRONT
    ]
    reach = rng.randint(8, 12) * state[SPEED]
    return state[HEIGHT] == 0 and min(ahead, default=1 << 30) - RUNNER_FRONT < reach


def main() -> None:
    """Print one run as JSON: its seed, and what a client would submit."""
    parser = argparse.ArgumentParser(description="Play Hurdles.")
    parser.add_argument("module", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    played = play(arguments.module, arguments.seed, random.Random(arguments.seed))
    print(json.dumps(played.as_run()))


if __name__ == "__main__":
    main()
