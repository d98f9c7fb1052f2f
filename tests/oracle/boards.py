"""Policies of all kinds, drawn by a seed: each board has one feature for sure, and whatever goes with it by chance."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from policies.errors import PolicyError
from policies.loader import load_board

EXACT = 2**53 - 1
KINDS = ("daily", "weekly", "monthly", "season")
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "America/Havana",
    "Asia/Kolkata",
    "Pacific/Auckland",
    "Africa/Cairo",
)
SEASONS = ("30 2 * * *", "0 18 * * 5", "0 10 1 * *", "15 0 * * 0", "0 10 1 */3 *")
TIE_FIELDS = (
    [{"stat": "kills"}],
    [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}],
    [
        {"stat": "deaths", "order": "ascending"},
        {"stat": "kills"},
        {"stat": "coins"},
        {"stat": "lives", "order": "ascending"},
    ],
)
BOUNDS = (
    {"minimum": 0, "maximum": 40},
    {"minimum": -20, "maximum": 20},
    {"minimum": -1000, "maximum": 100_000},
)
RANKS = (["unique", "sparse"], ["dense"], ["sparse", "dense", "unique"], ["unique", "dense"], ["sparse"])

FEATURES: tuple[dict[str, Any], ...] = (
    {"tie_break": "first", "operator": "best"},
    {"tie_break": "fields", "operator": "best"},
    {"tie_break": "composite", "tie_resolution_ms": 86_400_000},
    {"operator": "sum"},
    {"operator": "latest"},
    {"operator": "count"},
    {"joins": "required"},
    {"segments": ["country", "club"]},
    {"shards": 3},
    {"exact_ranks": 10, "tie_break": "fields"},
    {"cold_after_h": 1},
    {"ranges": True},
    {"score": {"minimum": -EXACT, "maximum": EXACT}},
    {"joins": "required", "segments": ["club"], "operator": "latest"},
    {"shards": 4, "tie_break": "fields", "joins": "required"},
    {"ranges": True, "tie_break": "composite", "tie_resolution_ms": 86_400_000},
    {"operator": "sum", "tie_break": "fields", "segments": ["country"]},
)  # fmt: skip
"""What each board has for sure, in turns."""


def draw_policies(random: Random, folder: Path, count: int, first: int = 0) -> dict[str, dict[str, Any]]:
    """So many policies by name, written to a folder; from the feature of number `first` on, each board has the next one."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, dict[str, Any]] = {}
    while len(drawn) < count:
        feature = FEATURES[(first + len(drawn)) % len(FEATURES)]
        policy = _draw(random, f"board-{len(drawn)}", feature)
        path = folder / f"{policy['board']}.yaml"
        path.write_text(json.dumps(policy, indent=1))  # JSON is YAML
        try:
            load_board(path)
        except PolicyError:
            path.unlink()
            continue
        drawn[policy["board"]] = policy
    return drawn


def _draw(random: Random, name: str, feature: dict[str, Any]) -> dict[str, Any]:
    """A policy with this feature; the loader may refuse what chance added to it."""
    policy: dict[str, Any] = {
        "board": name,
        "title": name.title(),
        "writes": "trusted",
        "order": random.choice(("ascending", "descending")),
        "operator": random.choice(("best", "best", "latest", "sum", "count")),
        "decimals": random.choice((0, 0, 3)),
        "ranks": random.choice(RANKS),
        "tie_break": random.choice(("first", "first", "fields")),
        "time_zone": random.choice(ZONES),
        "windows": ["alltime", *random.sample(KINDS, random.randint(1, 3))],
        "score": random.choice(BOUNDS),
        "joins": random.choice(("open", "open", "open", "required")),
    } | feature
    if policy["tie_break"] == "fields":
        policy["tie_fields"] = random.choice(TIE_FIELDS)
    if "season" in policy["windows"]:
        policy["season"] = random.choice(SEASONS)
    if policy.get("ranges"):
        lowest, highest = policy["score"]["minimum"], policy["score"]["maximum"]
        policy["ranges"] = sorted(
            random.sample(range(lowest + 1, min(highest, lowest + 40)), random.randint(1, 4))
        )
    elif "shards" not in policy and "exact_ranks" not in policy and random.random() < 0.3:
        policy.setdefault("segments", ["country"])
    return policy
