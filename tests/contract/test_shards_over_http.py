"""A board in shards on a Redis Cluster, as a server writes it and clients read and follow it: over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.runtime.settings import Settings
from tests.support.attack import as_server, registered
from tests.support.cluster import ValkeyCluster
from tests.support.feeds import sse
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

PATIENCE_S = 60
ENTRIES = "/v1/boards/vault/entries"


async def read(harness: Harness, path: str) -> list[tuple[int, str, int]]:
    """Ranks, players and scores of what is read there, which the index has to give."""
    answer = await harness.get(path)
    assert (200, None) == (answer.status, answer.headers.get("Scoregate-Source")), answer.raw
    return [(each["rank"], each["player"], each["score"]) for each in answer.body["entries"]]


async def test_a_board_in_shards_is_written_read_and_followed_as_one(
    tmp_path: Path, cluster: ValkeyCluster, valkey: ValkeyServer
):
    """Pages, cursors, neighbours and percentiles are of the whole board; the feed says who came by whom, with their ranks."""
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", a_policy("vault", writes="trusted", shards=3)),
        redis_url=cluster.url,
        queue_url=valkey.url,
        redis_timeout_ms=5_000,
        bind=f"127.0.0.1:{free_port()}",
    )
    async with running_harness(settings) as harness, asyncio.timeout(PATIENCE_S):
        private = await registered(harness)

        async def write(player: str, score: int) -> None:
            said = {"operation": f"{player}-{score}", "player": player, "score": score}
            assert 202 == (await as_server(harness, private, said)).status

        await asyncio.gather(*(write(f"p{at}", at) for at in range(1, 13)))
        board = [(rank, f"p{13 - rank}", 13 - rank) for rank in range(1, 13)]
        assert board == await read(harness, ENTRIES)
        first = (await harness.get(f"{ENTRIES}?limit=5")).body
        assert board[5:10] == await read(harness, f"{ENTRIES}?limit=5&cursor={first['next']}")
        assert board[3:8] == await read(harness, f"{ENTRIES}/p7/around?radius=2")

        async with sse(harness, "window=alltime&players=p7,p8&events=rank,overtaken") as feed:
            await write("p2", 5)  # passes nobody who is followed
            await write("p1", 100)
            told = sorted([(await feed.event()).data for _ in range(2)], key=lambda data: str(data["player"]))
            assert [("p7", 7, 6, "p1"), ("p8", 6, 5, "p1")] == [
                (each["player"], each["rank"], each["was_rank"], each["by"]["player"]) for each in told
            ]
            seen = feed.last_id
            await write("p7", 200)
            told = [await feed.event() for _ in range(2)]
            assert {("rank", "p7", 1, 7), ("overtaken", "p8", 7, 6)} == {
                (each.kind, each.data["player"], each.data["rank"], each.data["was_rank"]) for each in told
            }
        async with sse(harness, "window=alltime&players=p7,p8&events=rank,overtaken", after=seen) as again:
            assert told == [await again.event() for _ in range(2)]
