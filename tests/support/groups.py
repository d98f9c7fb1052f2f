"""Boards for tests of friends, groups and trusted batches, and short ways to fill and to read them."""

from __future__ import annotations

import json
import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.tokens import Bearer, Role
from tests.support.harness import Answer, Harness, Request
from tests.support.policies import a_policy

KINDS = ["alltime", "daily", "weekly", "monthly"]
SUMMED = {"minimum": -1000, "maximum": 2**40, "step": 1}
BOARDS = (
    a_policy(
        "vault", writes="trusted", windows=KINDS, segments=["country", "club"], self_declared=["country"]
    ),
    a_policy("lap", writes="trusted", order="ascending"),
    a_policy("total", writes="trusted", operator="sum", score=SUMMED),
    a_policy("clicks", writes="trusted", operator="sum", score=SUMMED, staleness_s=60),
    a_policy("latest", writes="trusted", operator="latest"),
    a_policy(
        "packed",
        writes="trusted",
        operator="latest",
        tie_break="composite",
        tie_resolution_ms=3_600_000,
        score={"minimum": 0, "maximum": 1000, "step": 1},
    ),
    a_policy("league", writes="trusted", joins="required"),
)


def token_of(harness: Harness, player: str) -> str:
    """The token of a player by their id, such as a studio's own service would mint."""
    now_s = harness.clock() // 1000
    return harness.edge.tokens.mint(Bearer(player, Role.PLAYER, now_s + 3600), now_s=now_s)


async def call(harness: Harness, method: str, path: str, token: str, body: Any = None) -> Answer:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    raw = b"" if body is None else json.dumps(body).encode()
    return await harness.send(Request(method, path, raw, headers))


def by_server(
    harness: Harness,
    key: Ed25519PrivateKey,
    method: str,
    path: str,
    body: Any,
    *,
    key_id: str = "eu-1",
    **draft: Any,
) -> Request:
    """A trusted server's request to any path."""
    parts = {"method": method, "path": path, "nonce": secrets.token_urlsafe(18)} | draft
    signed = harness.server_signed(key, key_id, body, **parts)
    return Request(method, path, json.dumps(body).encode(), signed.headers)


async def fill(harness: Harness, key: Ed25519PrivateKey, board: str, scores: dict[str, int]) -> None:
    """Writes a score for each player."""
    operations = [
        {"action": "write", "operation": secrets.token_hex(8), "player": player, "score": score}
        for player, score in scores.items()
    ]
    answer = await harness.send(
        by_server(harness, key, "POST", f"/v1/boards/{board}/entries/batch", operations)
    )
    assert 200 == answer.status, answer.raw


def ranks(answer: Answer) -> list[tuple[int, str, int]]:
    """(rank, player, global rank) of each entry."""
    assert 200 == answer.status, answer.raw
    return [(each["rank"], each["player"], each["global_rank"]) for each in answer.body["entries"]]
