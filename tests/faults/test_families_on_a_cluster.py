"""Families on a real Redis Cluster, by a whole edge and two stewards: rollups, players' boards, a lost node, connections."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gateway.edge.auth.tokens import Bearer, Role
from gateway.runtime.settings import Settings
from gateway.steward.duties import Steward
from gateway.steward_wiring import open_steward
from tests.faults.test_lanes_on_a_cluster import connections, masters
from tests.gateway.edge.test_families import SCORE, Studio, opening
from tests.support.attack import registered
from tests.support.cluster import MASTERS, REPLICATED, ValkeyCluster
from tests.support.deployment import eventually
from tests.support.harness import free_port, running_harness
from tests.support.ledger import rows
from tests.support.policies import a_family, write_policies
from tests.support.thorough import IS_THOROUGH
from tests.support.valkey import ValkeyServer

TRACKS = [f"track.t{at}" for at in range(30 if IS_THOROUGH else 18)]
LEVELS = [f"level.l{at}" for at in range(12)]
PLAYERS = ("ada", "bob", "cyd", "dot")
SCALE = (5, 3, 1)
IN_USE = 400 if IS_THOROUGH else 160
PATIENCE_S = 120.0
POLL_S = 0.05


@pytest.fixture
def settings(tmp_path: Path, cluster: ValkeyCluster, valkey: ValkeyServer) -> Settings:
    generous = {"player_per_hour": 1_000, "address_per_hour": 1_000}
    policies = (
        a_family(writes="trusted", score=SCORE),
        {"board": "world", "title": "World", "rollup": {"family": "track"}},
        {"board": "cup", "title": "Cup", "rollup": {"family": "track", "take": "points", "points": [*SCALE]}},
        a_family("level", opened_by="players", names="l[0-9]+", opening=generous, builds={"b-1": {}}),
    )
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", *policies),
        redis_url=cluster.url,
        queue_url=valkey.url,
        redis_timeout_ms=500,
        read_budget_ms=1_000_000,
        reconcile_s=0.2,
        bind=f"127.0.0.1:{free_port()}",
    )


class Game:
    """An edge with a studio's key, and two stewards that run beside it."""

    def __init__(self, studio: Studio, stewards: list[Steward], settings: Settings) -> None:
        self.studio, self.harness = studio, studio.harness
        self.stewards = stewards
        self.settings = settings

    async def write(self, board: str, scores: dict[str, int]) -> None:
        """Scores on one board in one request, which is sent until it is answered."""
        entries = [
            {"action": "write", "operation": secrets.token_hex(8), "player": player, "score": score}
            for player, score in scores.items()
        ]
        path = f"/v1/boards/{board}/entries:batch"
        while True:
            done = await self.harness.as_server(self.studio.private, "eu-1", path, entries)
            if done.status == 200:
                assert 0 == done.body["refused"], done.raw
                return
            assert 503 == done.status, done.raw
            await asyncio.sleep(POLL_S)

    async def play(self, board: str) -> None:
        """A player's first run on a board, which opens it."""
        now_s = self.harness.clock() // 1000
        token = self.harness.edge.tokens.mint(Bearer("p_ada", Role.PLAYER, now_s + 3600), now_s=now_s)
        while True:
            opened = await self.harness.post(f"/v1/boards/{board}/runs", {"build": "b-1"}, token)
            if opened.status == 201:
                return
            assert opened.status in (429, 503), opened.raw
            await asyncio.sleep(POLL_S)

    async def shown(self, board: str) -> list[tuple[int, str, int]] | None:
        """The entries of a board, None while the index does not have them."""
        answer = await self.harness.get(f"/v1/boards/{board}/entries")
        if answer.status != 200 or "Scoregate-Source" in answer.headers:
            return None
        return [(entry["rank"], entry["player"], entry["score"]) for entry in answer.body["entries"]]

    async def until_shown(self, expected: dict[str, list[tuple[int, str, int]]]) -> None:
        """Wait until the index has all of these boards, as they are expected."""
        async with asyncio.timeout(PATIENCE_S):
            for board, entries in expected.items():
                while True:
                    if await self.shown(board) == entries:
                        break
                    await asyncio.sleep(POLL_S)


@pytest.fixture
async def game(settings: Settings) -> AsyncIterator[Game]:
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(running_harness(settings))
        stewards = [await stack.enter_async_context(open_steward(settings)) for _ in range(2)]
        for steward in stewards:
            await stack.enter_async_context(running(steward))
        yield Game(Studio(harness, await registered(harness)), stewards, settings)


@asynccontextmanager
async def running(steward: Steward) -> AsyncIterator[None]:
    task = asyncio.create_task(steward.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def ranked(scores: dict[str, int]) -> list[tuple[int, str, int]]:
    """The entries of a board on which no two scores are alike."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return [(rank, player, score) for rank, (player, score) in enumerate(ordered, start=1)]


def summed(boards: dict[str, dict[str, int]], points: bool) -> dict[str, int]:
    """Each player's sum over boards, of scores or of points by rank."""
    total: dict[str, int] = defaultdict(int)
    for scores in boards.values():
        for rank, player, score in ranked(scores):
            total[player] += (SCALE[rank - 1] if rank <= len(SCALE) else 0) if points else score
    return {player: score for player, score in total.items() if score}


async def test_families_live_on_a_cluster_that_loses_a_node_amid_promotions(
    game: Game, cluster: ValkeyCluster
):
    """Two stewards and an edge lose nothing: boards, sums and points are right, and players opened each board once."""
    await eventually(lambda: all(steward.leases.lanes_held() for steward in game.stewards))
    assert set() == set.intersection(*(set(steward.leases.lanes_held()) for steward in game.stewards))
    await game.studio.done(*(opening(board.removeprefix("track.")) for board in TRACKS))
    spread = Counter(cluster.master_of(board).port for board in TRACKS + LEVELS)
    assert MASTERS == len(spread)
    boards: dict[str, dict[str, int]] = {
        board: {player: 10 * at + place * (1 + at % 7) for place, player in enumerate(PLAYERS, start=1)}
        for at, board in enumerate(TRACKS)
    }
    master, replica = cluster.master_of(REPLICATED), cluster.replica
    is_half_done = asyncio.Event()

    async def play(at: int, board: str) -> None:
        for player, score in boards[board].items():
            await game.write(board, {player: score})
            if at == 0 and player == PLAYERS[1]:
                is_half_done.set()

    async with asyncio.TaskGroup() as group:
        for at, board in enumerate(TRACKS):
            group.create_task(play(at, board))
        await is_half_done.wait()
        master.kill()
        for board in LEVELS:
            group.create_task(game.play(board))
        await asyncio.to_thread(cluster.await_takeover, replica)
    await game.until_shown(
        {board: ranked(scores) for board, scores in boards.items()}
        | {"world": ranked(summed(boards, points=False)), "cup": ranked(summed(boards, points=True))}
    )
    openings = (
        "SELECT board, count(*) FROM events WHERE reason = 'board-opened' AND board LIKE 'level.%' GROUP BY 1"
    )
    assert dict.fromkeys(LEVELS, 1) == dict(rows(game.settings.ledger_path, openings))
    listed = (await game.harness.get("/v1/families/level/boards?limit=100")).body["boards"]
    assert sorted(LEVELS) == [board["board"] for board in listed]


async def test_connections_of_an_edge_and_stewards_follow_nodes_and_not_boards(
    game: Game, cluster: ValkeyCluster
):
    """Far fewer to a node than it has boards, once they were written to and read over HTTP."""
    names = [f"track.b{at}" for at in range(IN_USE)]
    await game.studio.done(*(opening(name.removeprefix("track.")) for name in names))
    counted: list[list[int]] = []
    for begin, end in ((0, 40), (40, IN_USE)):
        for at in range(begin, end, 20):
            used = names[at : at + 20]
            await asyncio.gather(*(game.write(name, {"ada": 5}) for name in used))
            answers = await asyncio.gather(*(game.harness.get(f"/v1/boards/{name}/entries") for name in used))
            assert {200} == {answer.status for answer in answers}
        counted.append([connections(node) for node in masters(cluster)])
    assert [(1, "ada", 5 * IN_USE)] == (await game.studio.entries("world"))
    assert max(map(max, counted)) < min(IN_USE / MASTERS, 80), counted
