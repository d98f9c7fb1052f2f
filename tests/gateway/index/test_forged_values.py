"""What somebody else wrote into an index is told as an index that cannot be read, and taken for nothing that it is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.groups.friends import FriendLists
from gateway.index.windows.heads import Head, Heads
from gateway.index.windows.sketches import ScoreSketch, Sketches, StoredSketch
from gateway.index.windows.subsets import PlayerLookup
from gateway.shared_records import FriendList
from policies.errors import IndexUnavailable, SketchUnreadable
from policies.fields import SortOrder
from tests.support.standings import RANKING, a_standing

WINDOW, SLOTS = keys.window("b", "alltime"), keys.members("b", "alltime")


@pytest.mark.parametrize("forged", [{"sketch": b"\xff\x00"}, {"sketch": b""}, {"seq": b"one"}])
async def test_a_sketch_that_nobody_of_ours_made_is_told_as_one_that_cannot_be_read(
    client: Redis, forged: dict[str, bytes]
):
    """It is then made again; one that lacks a part is none."""
    sketches, sketch = Sketches(client, "b", SortOrder.DESCENDING), ScoreSketch(SortOrder.DESCENDING)
    sketch.add([5, 7])
    await sketches.keep("alltime", StoredSketch(sketch, 3, 4, 5), None)
    stored = await sketches.of("alltime")
    assert stored is not None
    assert (2, 3, 4, 5) == (stored.sketch.count, *stored[1:])
    await client.hset(keys.sketch("b", "alltime"), mapping=forged)  # type: ignore[arg-type] - bytes as well
    with pytest.raises(SketchUnreadable):
        await sketches.of("alltime")
    await client.hdel(keys.sketch("b", "alltime"), "version")
    assert await sketches.of("alltime") is None


async def of_friends(client: Redis) -> Any:
    """A copy of a friend list whose version is none."""
    await FriendLists(client, most_bytes=2**20).keep(FriendList("ada", 1))
    await client.hset(keys.friends(keys.friends_bucket("ada")), "ada", f"{2**53} v1 bob")
    return await FriendLists(client, most_bytes=2**20).kept("ada")


async def of_head(client: Redis) -> Any:
    """A head whose last entry is at no order."""
    await client.zadd(WINDOW, {"f:ada": "+inf"})
    return await Heads(BoardIndex(client, RANKING)).of("alltime")


async def of_players(client: Redis) -> Any:
    """A player whose member tells no time."""
    await client.zadd(WINDOW, {"junk:ada": 5})
    await client.hset(SLOTS, "ada", "1 junk:ada s1")
    return await PlayerLookup(BoardIndex(client, RANKING)).entries("alltime", ["ada"])


@pytest.mark.parametrize("read", [of_friends, of_head, of_players])
async def test_values_that_we_never_wrote_are_an_index_that_cannot_be_read(
    client: Redis, read: Callable[[Redis], Awaitable[Any]]
):
    """The ledger answers then, and the steward puts them right: it is no failure of ours."""
    with pytest.raises(IndexUnavailable, match="never wrote"):
        await read(client)


async def test_a_count_of_what_is_below_that_is_none_counts_as_nothing(client: Redis):
    """The next look of the steward counts anew."""
    heads = Heads(BoardIndex(client, RANKING))
    ada = a_standing("ada", 7)
    await client.zadd(WINDOW, {ada.member: ada.order})
    seen = []
    for counter in ("5 2", "5 -2", "five 2", "5 2 1", "5 " + "9" * 16):
        await client.hset(SLOTS, keys.BELOW_FIELD, counter)
        seen.append(await heads.of("alltime"))
    nothing = Head(1, 0, "", seen[0].last)
    assert [Head(1, 2, "5", seen[0].last), *[nothing] * 4] == seen
    assert (ada.order, ada.member) == seen[0].last
