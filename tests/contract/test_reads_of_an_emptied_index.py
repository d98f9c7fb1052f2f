"""Every public read, right after Redis was emptied: as it was before, or not at all, and never wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.edge.routes import ROUTES
from gateway.index import keys
from gateway.runtime.settings import Settings
from tests.support.attack import registered
from tests.support.cluster import ValkeyCluster
from tests.support.groups import BOARDS, by_server, call, fill, token_of
from tests.support.harness import Answer, Harness, free_port
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORES: Final = {f"p{number}": 10 * number for number in range(1, 10)}
PLAYERS: Final = "players=p1,p9,nobody"
SHARDED: Final = a_policy("wide", writes="trusted", shards=3, ranks=["sparse", "unique"])
RANGED: Final = a_policy("ranged", writes="trusted", ranges=[30, 60])
SEEN: Final = {"vault": ["segment=club:reds"], "wide": ["ranks=sparse", "ranks=unique"], "ranged": []}
"""The boards that are read, and what else their entries can be asked by."""

MADE_IN_REDIS: Final = ("friends=true", "players=", "segment=")
"""What only Redis can answer."""

APART: Final = {
    "/livez": "says nothing of a board",
    "/readyz": "says nothing of a board",
    "/v1/export": "is lines of JSON, and from the ledger",
    "/v1/boards/{board}/join": "is for boards that are joined, and from the ledger",
    "/v1/boards/{board}/live": "has a test of its own",
    "/v1/moderation/trail.csv": "is no JSON, and from the ledger",
    "/v1/moderation/queue/live": "does not end, and is from the ledger",
    "/v1/boards/{board}/live/websocket": "tells what the event stream does",
}
"""Routes that are not walked, and why."""


@pytest.fixture(params=["one server", "a cluster"])
def redis_url(request: pytest.FixtureRequest) -> str:
    if request.param == "one server":
        server: ValkeyServer | ValkeyCluster = request.getfixturevalue("valkey")
    else:
        server = request.getfixturevalue("cluster")
    return server.url


@pytest.fixture
def settings(tmp_path: Path, redis_url: str, valkey_server: ValkeyServer) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", arcade_policy(), *BOARDS, SHARDED, RANGED),
        redis_url=redis_url,
        queue_url=valkey_server.url,
        redis_timeout_ms=5_000,
        bind=f"127.0.0.1:{free_port()}",
    )


async def emptied(harness: Harness) -> None:
    """Takes everything out of every server of the index."""
    client: Any = harness.edge.index.client
    nodes = {"target_nodes": "primaries"} if hasattr(client, "get_primaries") else {}
    await client.flushall(**nodes)


async def filled(harness: Harness) -> str:
    """Scores on each board, friends and a group; gives a submission of p5."""
    key = await registered(harness)
    for board in SEEN:
        await fill(harness, key, board, SCORES)
    for friend in ("p2", "p7", "unseen"):
        assert 200 == (await call(harness, "PUT", f"/v1/friends/{friend}", token_of(harness, "p5"))).status
    for player in ("p3", "p5", "p8"):
        told = {"operation": f"reds-{player}", "player": player, "segments": {"club": "reds"}}
        sent = by_server(harness, key, "POST", "/v1/boards/vault/memberships", told)
        assert 200 == (await harness.send(sent)).status
    return str((await harness.get("/v1/boards/vault/entries/p5")).body["submission"])


def queries_of(path: str, board: str) -> list[str]:
    """The queries that a route is asked with: each way of reading that it has."""
    match path:
        case "/v1/boards/{board}/entries":
            return ["", "offset=4&limit=2", "friends=true", PLAYERS, *SEEN[board]]
        case "/v1/boards/{board}/entries/{player}/around":
            return ["", "radius=1", "friends=true", *SEEN[board]]
        case "/v1/boards/{board}/distribution":
            return ["", "edges=25,55"]
        case "/v1/boards/{board}/details":
            return ["submissions={submission}"]
        case "/v1/players/{player}/entries":
            return ["boards=vault,wide,ranged,none"]
        case _:
            return [""]


def walked(submission: str) -> list[tuple[str, str | None]]:
    """Each path of each route that is walked, and the player whose token it takes; None for a moderator."""
    found: dict[str, str | None] = {}
    for route in ROUTES:
        if route.method != "GET" or route.path in APART:
            continue
        whose = None if route.caller.value == "moderator" else "p5"
        for board in SEEN:
            path = route.path.replace("{board}", board).replace("{player}", "p5")
            for query in queries_of(route.path, board):
                target = f"{path}?{query}".removesuffix("?").replace("{submission}", submission)
                found[target] = whose
    return list(found.items())


async def read(harness: Harness, submission: str) -> dict[str, Answer]:
    moderator, player = harness.moderator(), token_of(harness, "p5")
    return {
        path: await harness.get(path, player if whose else moderator) for path, whose in walked(submission)
    }


def facts(answer: Answer) -> Any:
    """What an answer says; the count of players ever is absent while nobody has counted."""
    body = json.loads(answer.raw)
    return {name: value for name, value in body.items() if name != "players_ever"}


async def test_B01_no_read_takes_an_emptied_index_for_an_empty_board(harness: Harness):
    """Every GET route answers what it did before Redis was emptied, or 503; what was asked of the index alone too."""
    submission = await filled(harness)
    before = await read(harness, submission)
    await emptied(harness)
    after = await read(harness, submission)
    found = {path for path, answer in before.items() if answer.status == 200}
    wrong = [
        path
        for path, answer in after.items()
        if answer.status != 503
        and (before[path].status, facts(before[path])) != (answer.status, facts(answer))
    ]
    refused = {path for path, answer in after.items() if answer.status == 503}
    assert [] == wrong
    assert {path for path in before if any(each in path for each in MADE_IN_REDIS)} == refused & found


async def test_B01_a_stream_tells_no_ranks_of_a_part_of_a_board(harness: Harness):
    """What changes before the board is whole again is told without a rank, which would be one among too few."""
    key = await registered(harness)
    for board in ("vault", "wide"):
        await fill(harness, key, board, SCORES)
    await emptied(harness)
    for board in ("vault", "wide"):
        await fill(harness, key, board, {"p1": 500})
        rows: Any = await harness.edge.index.client.xrange(keys.changes(board))
        assert {("p1", "0", "0")} == {
            tuple(row[each] for each in ("player", "rank", "was_rank")) for _, row in rows
        }
