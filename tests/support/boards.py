"""Policy files of boards of a tiny, fast game, and of modules that misbehave."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from policies.loader import Board, load_board
from tests.replay.games import END, GAME, STATS, Module, Play, broken, play, store

BUILD = "tiny-1"
CHECKPOINT_TICKS = 10

LOOP = "(loop $for_ever (br $for_ever)) i32.const 0"
_GROWN = "(i32.eq (memory.grow (i32.const 16)) (i32.const -1))"
BOMB = f"(block $end (loop $more (br_if $end {_GROWN}) (br $more))) i32.const 8"
TRAP = "unreachable"


def write_board(
    folder: Path,
    board: str = "tiny",
    module: Module | None = None,
    *,
    stats: tuple[str, ...] = STATS,
    budget: dict[str, int] | None = None,
    **changes: Any,
) -> Path:
    """A policy file of a board on which any run of the tiny game is plausible."""
    folder.mkdir(parents=True, exist_ok=True)
    module = module or store(folder, GAME)
    policy = {
        "board": board,
        "title": board.title(),
        "windows": ["alltime", "daily", "weekly", "monthly"],
        "score": {"minimum": 0, "maximum": 1_000_000},
        "velocity": {"points_per_second": 1_000_000.0, "slack_s": 60},
        "limits": {
            "player": {"per_minute": 1_000_000, "burst": 100_000},
            "address": {"per_minute": 1_000_000, "burst": 100_000},
            "open_runs": 1000,
        },
        "anomaly": {
            "threshold": 100.0,
            "spread_floor": 1_000_000.0,
            "prior": {"mean": 0.0, "spread": 1_000_000.0},
        },
        "builds": {BUILD: {"simulator": os.path.relpath(module.path, folder)}},
        "replay": {
            "maximum_ticks": 100_000,
            "checkpoint_ticks": CHECKPOINT_TICKS,
            "stats": list(stats),
            "budget": {"fuel": 100_000_000, "memory_mib": 4, "wall_ms": 2000} | (budget or {}),
        },
    }
    path = folder / f"{board}.yaml"
    path.write_text(json.dumps(policy | changes))  # JSON is YAML
    return path


def board(folder: Path, name: str = "tiny", **changes: Any) -> Board:
    """The same, loaded."""
    return load_board(write_board(folder, name, **changes))


def bad_module(folder: Path, simulate: str, *, memory: str = "2") -> Module:
    """A module that keeps to the interface but for what its `simulate` does."""
    folder.mkdir(parents=True, exist_ok=True)
    return store(folder, broken(simulate, memory=memory))


def tiny_play(seed: int | str, points: int = 5, ticks: int = 25) -> Play:
    """An honest run that scores `points` (one of them with its last tick)."""
    return play([1] * (points - 1) + [2] * (ticks - points) + [END], int(seed), CHECKPOINT_TICKS)


def tiny_claim(seed: int | str, points: int = 5, ticks: int = 25) -> dict[str, Any]:
    """The body of an honest submission of such a run."""
    return claim_of(tiny_play(seed, points, ticks))


def claim_of(played: Play) -> dict[str, Any]:
    return {
        "score": played.score,
        "ticks": played.ticks,
        "stats": played.stats,
        "recording": base64.b64encode(played.recording).decode(),
    }
