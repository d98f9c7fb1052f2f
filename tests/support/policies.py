"""Policies for tests: small boards of every kind, and a folder to load them from."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from policies.model import Policy
from policies.ranking import Ranking
from tests.support.game import BUILD, MODULE, ROOT

EXACT_LIMIT = 2**53 - 1

GENEROUS = {
    "player": {"per_minute": 600, "burst": 100},
    "address": {"per_minute": 60_000, "burst": 1000},
    "player_kib": {"per_minute": 1_000_000, "burst": 1_000_000},
    "address_kib": {"per_minute": 1_000_000, "burst": 1_000_000},
    "refused": {"player": 1_000_000, "address": 1_000_000},
    "open_runs": 5,
}


def a_policy(board: str = "sprint", **changes: Any) -> dict[str, Any]:
    """Return a policy without a replay, whose runs a moderator judges; `changes` replace sections."""
    return {
        "board": board,
        "title": board.title(),
        "writes": "open",
        "score": {"minimum": 0, "maximum": EXACT_LIMIT, "step": 1},
        "velocity": {"points_per_second": 1e18, "slack_s": 60},
        "limits": GENEROUS,
        "anomaly": {"threshold": 4.0, "spread_floor": 10, "prior": {"mean": 100, "spread": 50}},
    } | changes


def a_family(family: str = "track", **changes: Any) -> dict[str, Any]:
    """The policy of a family whose boards are such; `changes` replace sections."""
    policy = a_policy(family, **changes)
    return {"family": policy.pop("board"), **policy}


def a_ranking(board: str = "b", **changes: Any) -> Ranking:
    """The ranking of such a board; scores may be as large as there are unless `score` says otherwise."""
    changes = {"score": {"minimum": -EXACT_LIMIT, "maximum": EXACT_LIMIT}} | changes
    return Ranking(Policy.model_validate(a_policy(board, **changes)))


def arcade_policy(**changes: Any) -> dict[str, Any]:
    """The bundled game's policy; `changes` replace whole sections."""
    policy = deepcopy(_arcade())
    policy["builds"] = {BUILD: {"simulator": str(MODULE)}}
    return policy | changes


@cache
def _arcade() -> dict[str, Any]:
    policy: dict[str, Any] = YAML(typ="safe").load((ROOT / "policies" / "arcade.yaml").read_text())
    return policy


def write_policies(folder: Path, *policies: dict[str, Any]) -> Path:
    """The folder, with one file for each policy."""
    folder.mkdir(parents=True, exist_ok=True)
    for policy in policies:
        (folder / f"{policy.get('board') or policy['family']}.yaml").write_text(json.dumps(policy))
    return folder
