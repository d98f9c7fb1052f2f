"""Copies of friend lists in Redis: good for a minute, and all of them together within so many bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from gateway.edge_wiring import open_edge
from gateway.index import keys
from gateway.index.connection import connect
from gateway.index.groups import friends
from gateway.index.groups.friends import FriendLists
from gateway.runtime.settings import Settings
from gateway.shared_records import FriendList
from tests.support.valkey import ValkeyServer

BYTES = 16 * 2**20
FRIENDS = tuple(f"friend-{at:058}" for at in range(500))
"""A list of 33 kB."""


@pytest.fixture(params=["one", "cluster"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    server: ValkeyServer = request.getfixturevalue("valkey" if request.param == "one" else "cluster")
    connected = connect(server.url, timeout_ms=5_000)
    yield connected
    await connected.aclose()


def in_one_bucket(count: int) -> list[str]:
    """Players whose copies are bounded together."""
    found = [f"p{at}" for at in range(count * 4 * keys.FRIENDS_BUCKETS)]
    return [each for each in found if keys.friends_bucket(each) == 7][:count]


async def test_F08_copies_of_friend_lists_are_bounded_in_all_and_the_least_used_go_first(client: Redis):
    """However many players read their boards: what was used of late stays, and what is counted is what is there."""
    lists = FriendLists(client, most_bytes=BYTES)
    used, *others = in_one_bucket(40)
    await lists.keep(FriendList(used, 1, FRIENDS))
    for other in others:
        await lists.keep(FriendList(other, 1, FRIENDS))
        assert await lists.kept(used) is not None
    there = [each for each in others if await lists.kept(each) is not None]
    assert others[-len(there) :] == there
    assert 3 <= len(there) < 8
    held = await client.hgetall(keys.friends(7))
    assert {used, *there} == held.keys() - {"*"}
    assert BYTES // keys.FRIENDS_BUCKETS >= int(held["*"]) >= sum(map(len, held.values()))
    assert {used, *there} == set(await client.zrange(keys.friends_used(7), 0, -1))


async def test_F08_a_list_that_is_larger_than_all_may_be_is_not_kept(client: Redis):
    """It is read from the ledger each time; the others stay."""
    lists = FriendLists(client, most_bytes=BYTES // 16)
    small, large = in_one_bucket(2)
    await lists.keep(FriendList(small, 1, ("bob",)))
    await lists.keep(FriendList(large, 1, FRIENDS))
    assert (FriendList(small, 1, ("bob",)), None) == (await lists.kept(small), await lists.kept(large))


async def test_F08_a_newer_list_replaces_the_older_and_no_copy_is_good_for_long(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """An older one never replaces a newer one while that is good; what is over is nobody's copy, and counts once."""
    lists = FriendLists(client, most_bytes=BYTES)
    [ada] = in_one_bucket(1)
    for version in (2, 1, 3):
        await lists.keep(FriendList(ada, version, FRIENDS[:version]))
    assert FriendList(ada, 3, FRIENDS[:3]) == await lists.kept(ada)
    assert 0 < await client.pttl(keys.friends(7)) <= friends.KEPT_MS
    over = f"1 9 {FRIENDS[0]}"
    await client.hset(keys.friends(7), mapping={ada: over, "*": 512 + len(over)})
    assert await lists.kept(ada) is None
    await lists.keep(FriendList(ada, 4))
    assert FriendList(ada, 4) == await lists.kept(ada)
    held = await client.hgetall(keys.friends(7))
    assert 256 + 2 * len(ada) + len(held[ada]) <= int(held["*"]) < 1024


async def test_F08_a_count_that_somebody_else_wrote_keeps_no_copy_out_for_long(client: Redis):
    """What cannot be is counted anew."""
    lists = FriendLists(client, most_bytes=BYTES)
    ada, bob = in_one_bucket(2)
    await lists.keep(FriendList(ada, 1))
    await client.hset(keys.friends(7), mapping={"*": 10**15, "unknown": "1"})
    await lists.keep(FriendList(bob, 1))
    assert (None, FriendList(bob, 1)) == (await lists.kept(ada), await lists.kept(bob))
    assert {bob, "*"} == (await client.hgetall(keys.friends(7))).keys()


async def test_F08_the_operator_says_how_much_room_copies_have(settings: Settings):
    """An edge bounds each bucket by its part of `friends_mib`."""
    async with open_edge(settings.model_copy(update={"friends_mib": 17})) as edge:
        assert 17 * 2**20 // keys.FRIENDS_BUCKETS == edge.friends._most_bytes
