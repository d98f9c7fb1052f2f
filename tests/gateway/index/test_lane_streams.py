"""A lane's stream and its readers: what a quiet board costs on a busy lane, and what nobody listens to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import changes, keys
from gateway.index.changes import ChangeStream
from gateway.index.connection import connect_blocking
from gateway.index.feed import catch_up_budget, reader
from gateway.index.feed.events import EventKind
from gateway.index.feed.live_feed import LiveFeed, Subscription
from gateway.index.feed.reader import LaneReader
from gateway.index.lane_stream import LanePage, LaneStream, StreamTrimmed
from gateway.runtime.lanes import lane_of
from policies.errors import IndexUnavailable
from tests.support.attack import until
from tests.support.feeds import entry, ranking_of
from tests.support.policies import a_ranking
from tests.support.valkey import ValkeyServer

LANE = lane_of("b")
NEIGHBOUR = next(name for number in range(10_000) if lane_of(name := f"n{number}") == LANE)
"""Another board in the lane of `b`."""
ELSEWHERE = "c"


@pytest.fixture
async def feed(valkey: ValkeyServer, client: Redis) -> AsyncIterator[LiveFeed]:
    """A feed that knows three boards, two of them in one lane."""
    blocking = connect_blocking(valkey.url)
    made = LiveFeed(blocking, ranking_of(*map(a_ranking, ("b", NEIGHBOUR, ELSEWHERE))))
    made.start()
    yield made
    await made.stop()
    await blocking.aclose()


async def add(client: Redis, board: str, *numbers: int) -> list[str]:
    """The ids of changes of a board."""
    async with client.pipeline() as pipe:
        for number in numbers:
            pipe.xadd(keys.changes(board), entry("bob", number, board=board))
        return [str(each) for each in await pipe.execute()]


async def seqs(following: Subscription, count: int) -> list[int]:
    """The numbers of the next changes that a listener is told of."""
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [event.change.seq for event in await anext(following.events) if event.change]
    return found


@pytest.mark.parametrize("again", [False, True], ids=["left", "followed anew"])
@pytest.mark.parametrize("how", ["a page", "a gap"])
async def test_what_is_read_of_a_lane_that_was_left_meanwhile_is_told_to_nobody(
    client: Redis, monkeypatch: pytest.MonkeyPatch, how: str, *, again: bool
):
    """Whoever follows it anew begins at its end, and would hear of what was there before."""
    told: list[str] = []
    after = LaneStream.after

    async def nothing(_: int) -> None:
        """Nobody announces."""

    async def left_meanwhile(self: LaneStream, *rest: Any) -> LanePage:
        page = await after(self, *rest)
        lanes.leave(LANE)
        if again:
            begin()
        if how == "a gap":
            raise StreamTrimmed
        return page

    def begin() -> reader.LaneCursor:
        lanes._cursors[LANE] = reader.LaneCursor(LANE, LaneStream(client, keys.lane_changes(LANE)))
        return lanes._cursors[LANE]

    lanes = LaneReader(
        client,
        hear=lambda *_: told.append("a page"),
        begin_again=lambda *_: told.append("a gap"),
        grown=nothing,
    )
    cursor = begin()
    [cursor.last_id, _] = await add(client, "b", 1, 2)
    await lanes._read(cursor)
    assert ["a page"] == told
    told.clear()
    monkeypatch.setattr(LaneStream, "after", left_meanwhile)
    await add(client, "b", 3)
    await lanes._read(cursor)
    assert [] == told


async def test_boards_of_a_lane_are_told_of_apart(feed: LiveFeed, client: Redis):
    """Each listener hears of its own board, live and in what it missed, though one stream has both."""
    [first] = await add(client, "b", 1)
    async with feed.listen("b") as own, feed.listen(NEIGHBOUR) as other:
        for following in (own, other):
            await anext(following.events)
        await add(client, NEIGHBOUR, 2, 3)
        await add(client, "b", 4, 5)
        assert ([4, 5], [2, 3]) == (await seqs(own, 2), await seqs(other, 2))
    async with feed.listen("b", after=first) as again:
        assert [4, 5] == await seqs(again, 2)


async def test_who_listens_to_a_quiet_board_moves_on_with_its_lane(feed: LiveFeed, client: Redis):
    """Its id stays one that can be resumed from, though only other boards change and trim the stream."""
    async with feed.listen("b") as quiet:
        await anext(quiet.events)
        waiting = asyncio.ensure_future(anext(quiet.events))
        *_, last = await add(client, NEIGHBOUR, *range(1, 300))

        async def has_moved_on() -> bool:
            return quiet.position == last

        await until(has_moved_on, within_s=20)
        await client.xtrim(keys.changes("b"), maxlen=1, approximate=False)
        waiting.cancel()
        await asyncio.wait([waiting])
    await add(client, "b", 500)
    async with feed.listen("b", after=last) as again:
        [event] = await anext(again.events)
        assert (EventKind.STANDING, 500) == (event.kind, event.change and event.change.seq)


async def test_who_listens_to_an_empty_stream_reads_the_board_again_after_a_failure(
    feed: LiveFeed, client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """It may be another stream by then, and nothing tells how much of it was lost."""
    grown_after, has_failed = LaneReader._grown_after, asyncio.Event()

    async def fail_once(self: LaneReader, ends: dict[str, str]) -> set[str]:
        if not has_failed.is_set():
            has_failed.set()
            raise IndexUnavailable
        return await grown_after(self, ends)

    monkeypatch.setattr(reader, "RETRY_S", 0.01)
    monkeypatch.setattr(LaneReader, "_grown_after", fail_once)
    async with feed.listen("b") as following:
        await anext(following.events)
        await has_failed.wait()
        [first] = await add(client, "b", 1)
        [event] = await anext(following.events)
        assert (EventKind.RESET, first) == (event.kind, event.stream_id)


async def test_who_returns_to_a_quiet_board_reads_no_more_of_its_lane_than_it_may(
    feed: LiveFeed, client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """Changes of others count as well: beyond the budget it is told to read the board."""
    monkeypatch.setattr(catch_up_budget, "MOST_CHANGES", 250)
    [first] = await add(client, "b", 1)
    await add(client, NEIGHBOUR, *range(2, 202))
    await add(client, "b", 500)
    async with feed.listen("b", after=first) as within:
        assert [500] == await seqs(within, 1)
    await add(client, NEIGHBOUR, *range(502, 602))
    async with feed.listen("b", after=first) as beyond:
        assert [EventKind.RESET] == [event.kind for event in await anext(beyond.events)]


async def test_places_are_looked_for_in_so_much_of_a_lane(client: Redis, monkeypatch: pytest.MonkeyPatch):
    """A watched rank of a quiet board costs no more than a bounded part of a busy lane."""
    monkeypatch.setattr(changes, "MOST_SEARCHED", 100)
    stream = ChangeStream(client, a_ranking("b"))
    await add(client, "b", 1)
    [change] = stream.changes_in(await client.xrange(stream.lane.key))
    await add(client, NEIGHBOUR, *range(2, 102))
    assert {"eve": None} == await stream.places_before(change, ["eve"])
    await add(client, NEIGHBOUR, 102)
    with pytest.raises(StreamTrimmed):
        await stream.places_before(change, ["eve"])


async def test_only_lanes_with_listeners_are_read_and_nothing_is_kept_of_others(
    feed: LiveFeed, client: Redis
):
    """The last listener of a lane takes its position with it; without any, no connection is left."""

    async def connections() -> set[str]:
        return {each["id"] for each in await client.client_list()}

    [past] = await add(client, "b", 1)
    others = await connections()
    assert () == feed.lanes
    async with feed.listen("b") as first, feed.listen(NEIGHBOUR), feed.listen(ELSEWHERE):
        await anext(first.events)
        assert {LANE, lane_of(ELSEWHERE)} == set(feed.lanes)
        async with feed.listen("b", after=past) as returning:  # it reads beside the call that waits
            await add(client, "b", 2)
            assert [2] == await seqs(returning, 1)
        assert not await connections() <= others
    assert () == feed.lanes
    assert {} == feed._boards

    async def is_alone() -> bool:
        return await connections() <= others

    await until(is_alone, within_s=20)
