"""The live feed on a Redis Cluster: boards of different masters, and a master that is lost while somebody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import RedisCluster
from redis.exceptions import RedisError

from gateway.index import keys
from gateway.index.connection import connect, connect_blocking
from gateway.index.feed.events import EventKind, Interest
from gateway.index.feed.live_feed import LiveFeed, Subscription
from tests.support.cluster import REPLICATED, ValkeyCluster
from tests.support.feeds import entry, ranking_of
from tests.support.policies import a_ranking

BOARDS = (REPLICATED, "vault", "cup")
WATCHED = Interest(players=frozenset({"bob"}), watched=frozenset({"bob"}))


@pytest.fixture
async def feed(cluster: ValkeyCluster) -> AsyncIterator[LiveFeed]:
    blocking = connect_blocking(cluster.url)
    made = LiveFeed(blocking, ranking_of(*map(a_ranking, BOARDS)))
    made.start()
    yield made
    await made.stop()
    await blocking.aclose()


@pytest.fixture
async def client(cluster: ValkeyCluster) -> AsyncIterator[RedisCluster]:
    connected = connect(cluster.url, timeout_ms=1_000)
    yield connected
    await connected.aclose()


async def add(client: RedisCluster, board: str, number: int) -> None:
    """Adds a change, however long the cluster takes to have a master for it."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.xadd(keys.changes(board), entry("bob", number, board=board))
            except (RedisError, OSError):
                await asyncio.sleep(0.05)
            else:
                return


async def heard(following: Subscription, count: int) -> list[tuple[EventKind, int | None]]:
    found = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [event for event in await anext(following.events) if event.kind is not EventKind.RANK]
    return [(each.kind, each.change.score if each.change else None) for each in found]


async def test_listeners_of_boards_on_different_masters_outlive_one_of_them(
    feed: LiveFeed, client: RedisCluster, cluster: ValkeyCluster
):
    """Each board is told of; what comes after a failover is told without a hole, or `reset` says that there is one."""
    assert len({cluster.master_of(board).port for board in BOARDS}) > 1
    for board in BOARDS:
        async with feed.listen(board, WATCHED) as following:
            assert [(EventKind.BEGIN, None)] == await heard(following, 1)
            await add(client, board, 1)
            assert [(EventKind.STANDING, 1)] == await heard(following, 1)
    replica = cluster.replica
    async with feed.listen(REPLICATED, WATCHED) as following, feed.listen("vault", WATCHED) as elsewhere:
        assert [(EventKind.BEGIN, None)] == await heard(following, 1) == await heard(elsewhere, 1)
        cluster.master_of(REPLICATED).kill()
        await asyncio.to_thread(cluster.await_takeover, replica)
        await add(client, REPLICATED, 2)
        await add(client, "vault", 3)
        # The replica may not have had the last change of its master: then the feed cannot know what else it had not.
        assert (await heard(following, 1))[0] in {(EventKind.STANDING, 2), (EventKind.RESET, None)}
        assert (EventKind.STANDING, 3) in await heard(elsewhere, 1)
