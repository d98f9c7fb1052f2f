"""What the steward puts right in an index: what moved meanwhile is left, and pages that were read before are let go of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.shards import ShardedIndex
from gateway.index.windows.heads import Heads
from gateway.shared_records import Change
from policies.ranking import Ranking
from policies.vocabulary import State
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.policies import a_ranking
from tests.support.standings import RANKING, a_standing

DENSE = a_ranking(ranks=["unique", "dense"])
WINDOW, SLOTS = keys.window("b", "alltime"), keys.members("b", "alltime")
GROUPS, NAMES = keys.groups("b", "alltime"), keys.names("b")
ADA, BOB = a_standing("ada", 7, 1, 1), a_standing("bob", 5, 2, 2)


@pytest.fixture
async def inspection(client: Redis) -> Inspection:
    """A look at a board of two players, with a page that somebody has read."""
    index = BoardIndex(client, DENSE)
    for standing in (ADA, BOB):
        await index.project(a_change(standing.seq, standing))
    await client.set(keys.version("b"), "read")
    return Inspection(client, "b")


async def is_let_go(client: Redis) -> bool:
    """True if the pages were let go of since it was last asked; they are read again."""
    return await client.set(keys.version("b"), "read", get=True) is None


async def test_members_are_taken_out_unless_their_player_moved(client: Redis, inspection: Inspection):
    """One that was forged beside another's goes; of a player whose slot is another by now nothing does."""
    await client.zadd(WINDOW, {b"\xff:eve": -9})
    slot = (await client.hget(SLOTS, "ada")).encode()
    told = []
    for member, player, seen in (
        (ADA.member.encode(), b"ada", b"1 of before"),
        (BOB.member.encode(), b"bob", b""),
        (b"\xff:eve", b"eve", b""),
        (b"\xff:eve", b"eve", b""),
        (ADA.member.encode(), b"ada", slot),
    ):
        await inspection.prune("alltime", WINDOW, [(member, player, seen)])
        told.append((await client.zcard(WINDOW), await is_let_go(client)))
    assert [(3, False), (3, False), (2, True), (2, False), (1, True)] == told
    assert [BOB.member] == await client.zrange(WINDOW, 0, -1)


async def test_fields_are_taken_out_unless_they_changed(client: Redis, inspection: Inspection):
    """By the value that was read; one that is no text as well."""
    await client.hset(NAMES, b"\xfe", b"\xff")
    told = []
    for seen in (
        {b"\xfe": b"other"},
        {b"\xfe": b"\xff"},
        {b"\xfe": b"\xff"},
        {},
        {b"ada": b"Ada", b"bob": b"x"},
    ):
        await inspection.drop(NAMES, seen)
        told.append((await client.hlen(NAMES), await is_let_go(client)))
    assert [(3, False), (2, True), (2, False), (2, False), (1, True)] == told


async def test_groups_are_mended_where_that_is_asked_for(client: Redis, inspection: Inspection):
    """One that nobody is in goes, one that somebody is in comes, by its own score; a look alone changes nothing."""
    ours = await client.zrange(GROUPS, 0, -1, withscores=True)
    [(of_ada, order), *_] = ours
    await client.zrem(GROUPS, of_ada)
    await client.zadd(GROUPS, {of_ada.replace("7", "6"): -6})
    asked = [of_ada, of_ada.replace("7", "6"), ours[1][0], b"\xff"]
    told = []
    for is_mended in (False, True, True):
        right = await inspection.check_groups(DENSE, "alltime", asked, is_mended=is_mended)
        told.append((right, await client.zcard(GROUPS), await is_let_go(client)))
    wrong, right = [False, False, True, True], [True] * 4
    assert [(wrong, 2, False), (wrong, 2, True), (right, 2, False)] == told
    assert ours == await client.zrange(GROUPS, 0, -1, withscores=True)
    assert order == await client.zscore(GROUPS, of_ada)


async def test_a_group_that_stands_at_another_score_is_put_where_it_belongs(
    client: Redis, inspection: Inspection
):
    """It is there, and would have the rank of others."""
    groups = await client.zrange(GROUPS, 0, -1, withscores=True)
    await client.zadd(GROUPS, {groups[0][0]: 99})
    asked = [group for group, _ in groups]
    told = [
        await inspection.check_groups(DENSE, "alltime", asked, is_mended=is_mended)
        for is_mended in (False, True, False)
    ]
    assert [[False, True], [False, True], [True, True]] == told
    assert groups == await client.zrange(GROUPS, 0, -1, withscores=True)


async def test_what_is_put_or_deleted_lets_go_of_pages(client: Redis, inspection: Inspection):
    """In the same step; nothing to do is nothing done."""
    works: list[Callable[[], Awaitable[None]]] = [
        lambda: inspection.put(NAMES, {"ada": "Countess"}),
        lambda: inspection.put(NAMES, {}),
        lambda: inspection.delete([]),
        lambda: inspection.delete([WINDOW]),
    ]
    told = []
    for work in works:
        await work()
        told.append(await is_let_go(client))
    assert [True, False, False, True] == told
    assert (0, "Countess") == (await client.exists(WINDOW), await client.hget(NAMES, "ada"))


async def test_a_head_that_is_filled_lets_go_of_pages(client: Redis):
    """Those who came up are read at once, with the groups that they are of; what did not fit is not there."""
    index = BoardIndex(client, Ranking(DENSE.policy.model_copy(update={"exact_ranks": 1})))
    heads = Heads(index)
    least = index.ranking.policy.most_entries or 0
    standings = [a_standing(f"p{at}", 1_000 - at, at, at, index.ranking) for at in range(1, least + 4)]
    for each in standings:
        await index.project(a_change(each.seq, each))
    gone = a_standing("p1", None, 0, 9_000, index.ranking)
    await index.project(a_change(9_000, gone))
    await client.set(keys.version("b"), "read")
    behind, version = standings[least:], (await heads.of("alltime")).version
    assert 0 == await heads.refill("alltime", "5", behind)
    assert not await is_let_go(client)
    assert 1 == await heads.refill("alltime", version, behind)
    assert await is_let_go(client)
    head = await heads.of("alltime")
    assert (least, 2, least) == (head.entries, head.below, await client.zcard(GROUPS))


@pytest.mark.parametrize("kind", ["whole", "cold", "in shards"])
async def test_a_stream_of_changes_keeps_about_twenty_thousand(client: Redis, kind: str):
    """However long a board goes on, by whoever writes to it: the oldest changes go."""
    stream = keys.changes("b")
    await client.eval("for _ = 1, 21000 do redis.call('XADD', KEYS[1], '*', 'a', 'b') end", 1, stream)
    if kind == "cold":
        await client.hset(keys.cold("b"), "*", "1")
    ranking = a_ranking("b", shards=2) if kind == "in shards" else RANKING
    index = ShardedIndex(client, ranking) if kind == "in shards" else BoardIndex(client, ranking)
    standing = a_standing("ada", 7, 1, 1, ranking)
    await index.project(Change(1, "s1", "b", "ada", State.PROMOTED, (standing,)))
    assert 20_000 <= await client.xlen(stream) <= 20_200
    [(_, last)] = await client.xrevrange(stream, count=1)
    assert "ada" == last["player"]
