"""What reads of the index cost: about what they return, however much is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys, shards
from gateway.index.board_index import Page
from gateway.index.changes import ChangeStream, RankedPlace, read_raw_changes
from gateway.index.connection import connect, connect_blocking
from gateway.index.feed import reader
from gateway.index.feed.live_feed import LiveFeed
from gateway.index.feed.sharded_stream import ShardedChangeStream
from gateway.index.generation import generation_of
from gateway.index.shards import Shard, ShardedIndex, shard_of
from tests.support.feeds import add, entry, ranking_of
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

RANKING = a_ranking("b", shards=3)
ENTRIES = 300


@pytest.fixture
async def running(valkey: ValkeyServer, client: Redis) -> AsyncIterator[LiveFeed]:
    """A feed of the board `b`, whose stream has an entry."""
    await add(client, entry("ada", 1), board="b")
    blocking = connect_blocking(valkey.url)
    feed = LiveFeed(blocking, ranking_of(a_ranking()))
    feed.start()
    yield feed
    await feed.stop()
    await blocking.aclose()


async def sent_bytes(client: Redis) -> int:
    """What the server has sent to all its clients."""
    return int((await client.info("stats"))["total_net_output_bytes"])


async def cost_of(client: Redis, read: Callable[[], Any]) -> int:
    """The bytes that the server sent for a read, and for two looks at its counters."""
    before = await sent_bytes(client)
    await read()
    return await sent_bytes(client) - before


async def test_a_look_at_the_end_of_a_stream_reads_no_other_part_of_it(client: Redis):
    """Of a board that had thousands of changes the last is read, and of a shard as many as are copied at once."""
    await add(client, *(entry("ada", number) for number in range(1, 1_001)), board="b")
    stream = ChangeStream(client, a_ranking()).lane
    assert await cost_of(client, stream.newest_id) < 20_000
    assert await cost_of(client, lambda: read_raw_changes(client, a_ranking(), "", 10)) < 20_000
    assert 10 == len((await read_raw_changes(client, a_ranking(), "", 10))[0])
    [last] = await client.xrevrange(keys.changes("b"), count=1)
    assert last[0] == await stream.newest_id()


async def test_streams_are_looked_at_seldom_however_much_happens(
    running: LiveFeed, client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """Each look asks for the end of every stream of a process: it is for when nothing happens, every few seconds."""
    looks = 0
    newest_ids = reader.newest_ids

    async def counted(client: Redis, streams: Sequence[str]) -> dict[str, str | None]:
        nonlocal looks
        looks += 1
        return await newest_ids(client, streams)

    monkeypatch.setattr(reader, "newest_ids", counted)
    async with running.listen("b") as following:
        await anext(following.events)
        for number in range(2, 22):
            await add(client, entry("ada", number), board="b")
            await anext(following.events)
    assert looks <= 4


@pytest.fixture
async def index(client: Redis) -> ShardedIndex:
    """A board in three shards, the last of which has one player."""
    players = [f"p{number}" for number in range(4 * ENTRIES)]
    crowd = [player for player in players if shard_of(player, 3) < 2][: ENTRIES - 1]
    lonely = next(player for player in players if shard_of(player, 3) == 2)
    board = ShardedIndex(client, RANKING)
    generation = generation_of(board)
    await generation.begin()
    standings = [
        a_standing(player, 1_000 - at, at, at, RANKING) for at, player in enumerate([lonely, *crowd], start=1)
    ]
    await generation.put_standings(standings)
    await generation.swap(["alltime"])
    await generation.finish()
    return board


@pytest.mark.parametrize(("first", "reads", "entries"), [(5, 3, 10), (200, 3 + 3 + 24, 5 + 3)])
async def test_a_page_of_a_board_in_shards_is_read_without_what_is_ahead_of_it(
    index: ShardedIndex, monkeypatch: pytest.MonkeyPatch, first: int, reads: int, entries: int
):
    """One read of each shard near the top; further down a few looks more, and no more entries of each than are shown."""
    monkeypatch.setattr(shards, "MOST_READ_PER_SHARD", 20)
    asked: list[int] = []
    page_of = Shard.page

    async def noted(self: Shard, window: str, begin: int, count: int, *kind: Any) -> Page:
        asked.append(count)
        return await page_of(self, window, begin, count, *kind)

    monkeypatch.setattr(Shard, "page", noted)
    page = await index.page("alltime", first, 5)
    assert list(range(first + 1, first + 6)) == [each.rank for each in page.entries]
    assert [999 - at for at in range(first, first + 5)] == [each.score for each in page.entries]
    assert ENTRIES == page.total
    assert max(asked) <= entries
    assert len(asked) <= reads


async def test_the_rank_of_a_place_on_a_board_in_shards_is_what_it_is_now(client: Redis, index: ShardedIndex):
    """The shards are ahead of the stream, so a rank that was followed change by change may be another by now."""
    [_, second] = (await index.page("alltime", 0, 2)).entries
    place = RankedPlace(*second.place, rank=77)
    assert place._replace(rank=2) == await ShardedChangeStream(client, RANKING).ranked("alltime", place)


async def test_bytes_that_are_no_text_end_no_feed(running: LiveFeed, client: Redis):
    """What somebody else put on the stream is passed over, and what follows is told."""
    async with asyncio.timeout(20), running.listen("b") as following:
        await anext(following.events)
        await client.xadd(keys.changes("b"), {b"\xff\xfe": b"\xff", "window": b"\x80"})
        await add(client, entry("bob", 2), board="b")
        [event] = await anext(following.events)
    assert event.change is not None
    assert "bob" == event.change.player


def test_a_read_that_waits_is_not_ended_by_its_own_connection(valkey: ValkeyServer):
    """A quiet feed waits for seconds: its client has more patience than that, and the other one what it was given."""
    waiting, quick = connect_blocking(valkey.url), connect(valkey.url, timeout_ms=700)
    patience_s = [
        each.connection_pool.connection_kwargs[name]
        for each in (waiting, quick)
        for name in ("socket_timeout", "socket_connect_timeout")
    ]
    assert [10.0, 10.0, 0.7, 0.7] == patience_s
