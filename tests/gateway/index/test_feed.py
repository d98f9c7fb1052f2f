"""Inside the live feed: bounds for who is slow, what coalescing keeps, and ranks that are those of the board."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import changes, keys
from gateway.index.changes import ChangeStream, StandingChange
from gateway.index.connection import connect_blocking
from gateway.index.feed import listener, newest_events, place_watch, reader
from gateway.index.feed.events import EventKind, FeedEvent, FeedMode, Interest
from gateway.index.feed.listener import FeedEnd, Listener
from gateway.index.feed.live_feed import LiveFeed, Subscription
from gateway.index.feed.newest_events import NewestEvents
from gateway.index.feed.reader import LaneReader
from gateway.index.feed.sharded_stream import change_stream
from gateway.index.lane_stream import Entry, LanePage, LaneStream, StreamTrimmed
from gateway.index.shards import ShardedIndex
from gateway.runtime.lanes import lane_of
from gateway.shared_records import Change
from policies.vocabulary import State
from tests.support.attack import until
from tests.support.feeds import entry, ranking_of
from tests.support.metrics import metric
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

LANE = lane_of("b")
PLAYERS = ("ada", "bob", "cyd", "dee")


def change(number: int, player: str = "ada", **other: Any) -> StandingChange:
    fields = {name: str(value) for name, value in entry(player, number, board="b", **other).items()}
    stream = ChangeStream(None, a_ranking())  # type: ignore[arg-type] - nothing is read here
    [made] = stream.changes_in([(f"{number}-0", fields)])
    return made


class Unread(LaneReader):
    """The reader of a feed that is given its changes by the test: it knows that all streams are empty."""

    def __init__(self, feed: LiveFeed) -> None:
        own = feed._reader
        super().__init__(own._client, hear=own._hear, begin_again=own._begin_again, grown=own._grown)

    def follow(self, lane: int) -> None:
        self._cursors[lane] = reader.LaneCursor(lane, LaneStream(self._client, keys.lane_changes(lane)))
        self._cursors[lane].is_known.set()


def hear(feed: LiveFeed, *entries: Entry) -> None:
    """Gives a feed these entries of the lane of `b`."""
    feed._hear(LANE, LanePage(entries, entries[-1][0], is_last=True))


def raw(number: int, player: str = "ada", **other: Any) -> Entry:
    """An entry of a change of `b`."""
    fields = entry(player, number, **{"board": "b"} | other)
    return f"{number}-0", {name: str(value) for name, value in fields.items()}


@pytest.fixture
async def feed() -> LiveFeed:
    """A feed that is given its changes by the test."""
    made = LiveFeed(None, ranking_of(a_ranking()))  # type: ignore[arg-type] - nothing is read here
    made._reader = Unread(made)
    return made


def counted(fate: str) -> float:
    return metric("scoregate_live_changes_total", fate=fate)


async def ids(following: Subscription) -> list[str | None]:
    return [event.stream_id for event in await anext(following.events)]


async def test_a_listener_that_falls_behind_is_let_go_without_a_hole(
    feed: LiveFeed, monkeypatch: pytest.MonkeyPatch
):
    """What it was given before the end is without a gap, so it can resume from the last id; others are not disturbed."""
    monkeypatch.setattr(listener, "LISTENER_LIMIT", 4)
    dropped = counted("dropped")
    async with feed.listen("b") as slow, feed.listen("b") as quick:
        assert [[None], [None]] == [await ids(slow), await ids(quick)]  # begin, of a stream without entries
        hear(feed, raw(1))
        assert ["1-0"] == await ids(slow)
        seen = await ids(quick)
        for number in range(2, 10):
            hear(feed, raw(number))
            seen += await ids(quick)
        assert [f"{number}-0" for number in range(1, 10)] == seen
        assert [] == [events async for events in slow.events]
        assert FeedEnd.BEHIND == slow.end
        assert None is quick.end
    assert dropped + 4 == counted("dropped")
    assert 0 == feed.listeners("b")


async def test_a_gap_is_told_to_who_has_fallen_behind_as_well(
    feed: LiveFeed, monkeypatch: pytest.MonkeyPatch
):
    """What waits for a slow listener is older than the board that it then reads, and makes room for being told so."""
    monkeypatch.setattr(listener, "LISTENER_LIMIT", 2)
    async with feed.listen("b") as slow, feed.listen("b") as quick:
        assert [[None], [None]] == [await ids(slow), await ids(quick)]
        hear(feed, raw(1), raw(2))
        assert ["1-0", "2-0"] == await ids(quick)
        feed._tell_of_gap(LANE, "5-0")
        told = [await anext(each.events) for each in (slow, quick)]
        assert [[(EventKind.RESET, "5-0")]] * 2 == [[(e.kind, e.stream_id) for e in some] for some in told]


async def test_coalescing_keeps_the_newest_of_each_window_and_player(feed: LiveFeed):
    """Who takes nothing while a hundred thousand changes pass is handed one of each player, in the order of the ids."""
    coalesced, dropped = counted("coalesced"), counted("dropped")
    async with feed.listen("b", Interest(mode=FeedMode.NEWEST)) as slow:
        assert [None] == await ids(slow)
        for page in range(100):
            numbers = range(page * 100 + 1, page * 100 + 101)
            hear(feed, *(raw(number, PLAYERS[number % 4]) for number in numbers))
            await taken_in(slow)
        assert None is slow.position
        assert ["9997-0", "9998-0", "9999-0", "10000-0"] == await ids(slow)
        assert "10000-0" == slow.position
    assert (coalesced + 10_000 - 4, dropped) == (counted("coalesced"), counted("dropped"))


async def taken_in(following: Subscription) -> None:
    """Returns once the changes given to a coalescing listener wait in their coalesced form."""

    async def is_idle() -> bool:
        return following._listener.is_idle

    await until(is_idle, within_s=20)


def told(number: int, player: str = "ada", kind: EventKind = EventKind.STANDING) -> FeedEvent:
    return FeedEvent(kind, f"{number}-0", change(number, player))


async def test_what_waits_for_a_slow_listener_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Past the bound what waits is dropped, and the listener told to read the board again, from an id that holds."""
    monkeypatch.setattr(newest_events, "NEWEST_LIMIT", 3)
    dropped, waiting = counted("dropped"), NewestEvents()
    for number in range(1, 10):
        waiting.put(told(number, f"p{number}"))
        assert len(waiting) <= 3
    taken = await waiting.take()
    assert [(EventKind.RESET, "7-0"), (EventKind.STANDING, "8-0"), (EventKind.STANDING, "9-0")] == [
        (each.kind, each.stream_id) for each in taken
    ]
    assert dropped + 8 == counted("dropped")
    waiting.close()
    assert [] == await waiting.take()


async def test_a_reset_has_the_last_id_that_there_was(monkeypatch: pytest.MonkeyPatch):
    """Also where the event that was too much had none: the listener goes on from there."""
    monkeypatch.setattr(newest_events, "NEWEST_LIMIT", 2)
    waiting = NewestEvents()
    for event in (told(1, "ada"), told(2, "bob"), FeedEvent(EventKind.STANDING, None, change(3, "cyd"))):
        waiting.put(event)
    assert [FeedEvent(EventKind.RESET, "2-0")] == await waiting.take()


async def test_kinds_and_windows_are_coalesced_apart():
    """A rank does not hide a standing, nor one window or watched player another; a reset hides all before it."""
    waiting = NewestEvents()
    daily = FeedEvent(EventKind.STANDING, "3-0", change(3, window="daily:20261120"))
    for event in (told(1), told(2, kind=EventKind.RANK), daily, told(4)):
        waiting.put(event)
    assert ["2-0", "3-0", "4-0"] == [each.stream_id for each in await waiting.take()]
    for number, player in ((5, "bob"), (6, "cyd"), (7, "bob")):
        waiting.put(FeedEvent(EventKind.RANK, f"{number}-0", change(number), player))
    assert ["6-0", "7-0"] == [each.stream_id for each in await waiting.take()]
    waiting.put(told(5))
    waiting.put(FeedEvent(EventKind.RESET, "6-0"))
    assert ["6-0"] == [each.stream_id for each in await waiting.take()]


@pytest.fixture
async def running(valkey: ValkeyServer, client: Redis) -> AsyncIterator[LiveFeed]:
    """A feed on a real Redis, with what is written of the board `b` in it."""
    blocking = connect_blocking(valkey.url)
    made = LiveFeed(blocking, ranking_of(a_ranking(), a_ranking("c")))
    made.start()
    yield made
    await made.stop()
    await blocking.aclose()


class Board:
    """A board that writes its changes as `project_change.lua` does, and remembers all places after each."""

    def __init__(self, client: Redis, window: str) -> None:
        self._client = client
        self._window = window
        self._members: dict[str, tuple[int, str]] = {}
        self.ranks: list[dict[str, int]] = [{}]
        self.changed: list[str] = []
        self.last_id = ""

    async def put(self, player: str, score: int | None, number: int) -> None:
        zset, slots = keys.window("b", self._window), keys.members("b", self._window)
        was = self._members.pop(player, None)
        was_rank = self.ranks[-1].get(player, 0)
        if score is not None:
            self._members[player] = (-score, f"{number:022x}:{player}")
        order, member = self._members.get(player, ("", ""))
        standing = sorted((place, each) for each, place in self._members.items())
        self.ranks.append({each: rank for rank, (_, each) in enumerate(standing, start=1)})
        self.changed.append(player)
        places = {"order": order, "member": member, "rank": self.ranks[-1].get(player, 0)}
        before = {
            "was_order": was[0] if was else "",
            "was_member": was[1] if was else "",
            "was_rank": was_rank,
        }
        async with self._client.pipeline(transaction=True) as pipe:
            if was:
                pipe.zrem(zset, was[1])
            if member:
                pipe.zadd(zset, {member: int(order)})
            pipe.hset(slots, player, f"{number} {member} s{number}")
            pipe.xadd(
                keys.changes("b"), entry(player, number, window=self._window, board="b") | places | before
            )
            [*_, self.last_id] = await pipe.execute()

    def expected(self, first: int, watched: tuple[str, ...]) -> list[tuple[str, str, Any, Any]]:
        """What the watched players hear of the changes from the `first` on, by the ranks before and after each."""
        heard = []
        for before, after, mover in list(zip(self.ranks, self.ranks[1:], self.changed, strict=False))[first:]:
            for player in watched:
                was, now = before.get(player), after.get(player)
                if was != now:
                    is_passed = player != mover and (now or 0) > (was or 0)
                    heard.append(("overtaken" if is_passed else "rank", player, now, was))
        return heard


async def heard_of(following: Subscription, count: int) -> list[tuple[str, str, Any, Any]]:
    found: list[Any] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [event for event in await anext(following.events) if event.kind in ("rank", "overtaken")]
    return [(str(each.kind), each.player, each.rank, each.was_rank) for each in found]


@pytest.fixture
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the reader look after each read whether a stream began anew."""
    monkeypatch.setattr(reader, "LOOK_S", 0.0)


async def test_who_looks_whether_a_stream_began_anew_tells_nobody_if_it_did_not(
    always_looking: None,
    running: LiveFeed,
    client: Redis,
):
    """A stream that ends where it was read to is the same one: every change is told, and no reset."""
    board, told = Board(client, "alltime"), []
    async with running.listen("b") as following:
        assert [EventKind.BEGIN] == [event.kind for event in await anext(following.events)]
        for number in range(1, 5):
            await board.put("ada", number, number)
            told += [event.kind for event in await anext(following.events)]
    assert [EventKind.STANDING] * 4 == told


@pytest.mark.parametrize("seed", range(4))
async def test_ranks_and_overtakings_are_those_of_the_board(running: LiveFeed, client: Redis, seed: int):
    """Every change of a watched player's rank is told, once, as it was: from the start, and by who resumes anywhere."""
    luck = random.Random(seed)
    windows = [Board(client, name) for name in ("alltime", "daily:20261120")]

    async def play(numbers: range) -> None:
        for number in numbers:
            score = None if luck.random() < 0.2 else luck.randint(-2, 2)
            await luck.choice(windows).put(luck.choice(PLAYERS), score, number)

    await play(range(1, 20))
    watched = ("bob", "cyd")
    firsts, resumed_from = [len(each.changed) for each in windows], max(each.last_id for each in windows)
    interests = [
        Interest(frozenset({name}), frozenset(watched), frozenset(watched)) for name in ("alltime", "daily")
    ]
    await play(range(20, 60))
    for board, known, interest in zip(windows, firsts, interests, strict=True):
        expected = board.expected(known, watched)
        assert {"rank", "overtaken"} == {kind for kind, *_ in expected}
        async with running.listen("b", interest, resumed_from) as following:
            assert expected == await heard_of(following, len(expected))
            before = len(board.changed)
            await board.put("ada", 100, 60)
            await board.put("bob", 101, 61)
            expected = board.expected(before, watched)
            assert expected == await heard_of(following, len(expected))


async def newest_of(stream: ChangeStream, client: Redis) -> StandingChange:
    [*_, change] = stream.changes_in(await client.xrange(stream.lane.key))
    return change


async def test_what_was_missed_moves_no_rank_that_is_told_after_it(client: Redis):
    """Who is told to read the board again hears of ranks as they are then, and not as they were before the gap."""
    feed, board = LiveFeed(client, ranking_of(a_ranking())), Board(client, "alltime")
    feed._reader = Unread(feed)
    interest = Interest(players=frozenset(), watched=frozenset({"bob"}))

    async def play(player: str, score: int, number: int) -> None:
        await board.put(player, score, number)
        hear(feed, *await client.xrevrange(keys.changes("b"), count=1))

    async with feed.listen("b", interest) as following:
        await anext(following.events)
        await play("bob", 1, 1)
        assert [("rank", "bob", 1, None)] == await heard_of(following, 1)
        for number, player in enumerate(("ada", "cyd"), start=2):
            await board.put(player, 9, number)
        feed._tell_of_gap(LANE, board.last_id)
        assert [(EventKind.RESET, board.last_id)] == [
            (each.kind, each.stream_id) for each in await anext(following.events)
        ]
        await play("dee", 5, 4)
        assert [("overtaken", "bob", 4, 3)] == await heard_of(following, 1)


async def test_who_watches_a_board_in_shards_hears_of_places_before_the_change(client: Redis):
    """What came after it is undone, and who stands nowhere stands nowhere."""
    ranking = a_ranking("b", shards=2)
    index = ShardedIndex(client, ranking)
    for seq, player in enumerate(PLAYERS, start=1):
        standing = a_standing(player, 10 * seq, seq, seq, ranking)
        await index.project(Change(seq, f"s{seq}", "b", player, State.PROMOTED, (standing,)))
    stream = change_stream(client, ranking)
    _, of_bob, *_ = stream.changes_in(await client.xrange(stream.lane.key))
    places = await stream.places_before(of_bob, [*PLAYERS, "nobody"])
    assert {"ada": 1} | dict.fromkeys(["bob", "cyd", "dee", "nobody"]) == {
        player: place and place.rank for player, place in places.items()
    }


@pytest.mark.parametrize(
    ("field", "most", "beyond"),
    [("order", "-9007199254740992", "-9007199254740993"), ("order", str(2**53), str(2**53 + 1))]
    + [("rank", "0", "-1"), ("rank", str(2**53), str(2**53 + 1))]
    + [("seq", "0", "-1"), ("seq", str(2**53), str(2**53 + 1))]
    + [("player", "~", "\x7f"), ("submission", " ", "\n"), ("window", "alltime", "allt\u00efme")],
)
def test_what_no_board_has_is_no_change(field: str, most: str, beyond: str):
    """Numbers that no double tells apart, ranks that nobody has, ids with what no id has: nobody is told of them."""
    stream = ChangeStream(None, a_ranking())  # type: ignore[arg-type] - nothing is read here
    ours = {name: str(value) for name, value in entry("ada", 1, board="b").items()}
    told = [len(stream.changes_in([("1-0", ours | {field: value})])) for value in (most, beyond)]
    assert [1, 0] == told


def test_a_rank_that_is_not_told_is_none():
    """Of a board that is not whole the stream has zeros: nobody has rank 0."""
    told = change(1, rank=0, was_order=-5, was_member="f:ada", was_rank=0)
    assert (5, None, None) == (told.was_score, told.rank, told.was_rank)


async def test_a_board_that_is_followed_too_is_read_beside_the_others_and_once(
    running: LiveFeed, client: Redis
):
    """The read that waits is broken off and begun again with one stream more: every change of either is told once."""
    first, second = Board(client, "alltime"), ChangeStream(client, a_ranking("c"))
    async with running.listen("b") as known:
        await anext(known.events)
        async with running.listen("c") as new:
            await anext(new.events)
            for number in (1, 2):
                await first.put("ada", number, number)
                await client.xadd(second.lane.key, entry("bob", number, board="c"))
            told: list[list[int]] = [[], []]
            for following, seqs in zip((known, new), told, strict=True):
                while len(seqs) < 2:
                    seqs += [event.change.seq for event in await anext(following.events) if event.change]
    assert [[1, 2], [1, 2]] == told
    assert 1 == len([each for each in asyncio.all_tasks() if each.get_name() == "live-feed"])


async def test_a_feed_that_was_stopped_reads_nothing_and_lets_everybody_go(valkey: ValkeyServer):
    """None of its tasks is left, and who comes after it is let go at once."""
    blocking = connect_blocking(valkey.url)
    feed = LiveFeed(blocking, ranking_of(a_ranking(), a_ranking("c")))
    feed.start()
    async with feed.listen("b") as early:
        await anext(early.events)
        await feed.stop()
        assert [] == [each for each in asyncio.all_tasks() if each.get_name().startswith("live-feed")]
        assert [] == [events async for events in early.events]
    async with feed.listen("b") as late:
        assert [EventKind.BEGIN] == [event.kind for some in [e async for e in late.events] for event in some]
    assert (FeedEnd.RELEASED, FeedEnd.RELEASED) == (early.end, late.end)
    await blocking.aclose()


async def test_a_watch_remembers_so_many_windows_and_reads_the_others_again(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """A feed that is open for months has the places of as many windows as move, and not of each day there was."""
    monkeypatch.setattr(place_watch, "WINDOWS_KEPT", 2)
    stream = ChangeStream(client, a_ranking())
    watching = place_watch.PlaceWatch(stream, ["bob"])
    days = [Board(client, f"daily:2026112{day}") for day in range(3)]
    for day in days:
        await day.put("bob", 1, 1)
        await watching.follow(await newest_of(stream, client))
    for number, player in enumerate(("ada", "cyd"), start=2):
        for day in days:
            await day.put(player, number, number)
            told = await watching.follow(await newest_of(stream, client))
            assert [(number, number - 1)] == [(each.rank, each.was_rank) for each in told]
            assert len(watching._places) <= 2


async def test_places_are_not_looked_for_behind_more_changes_than_are_undone(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """Who comes back to a window that moved very often is told to read the board, which costs less."""
    monkeypatch.setattr(changes, "MOST_UNDONE", 3)
    stream, board = ChangeStream(client, a_ranking()), Board(client, "alltime")
    await board.put("bob", 1, 1)
    await board.put("ada", 2, 2)
    change = await newest_of(stream, client)
    for number in range(3, 6):
        await board.put("cyd", number, number)
    assert {"bob": 1} == {
        name: at and at.rank for name, at in (await stream.places_before(change, ["bob"])).items()
    }
    await board.put("cyd", 6, 6)
    with pytest.raises(StreamTrimmed):
        await stream.places_before(change, ["bob"])


async def test_a_listener_that_has_caught_up_with_later_changes_does_not_go_back():
    """The reader passes over what the listener has read by itself; who resumes would get that twice."""
    caught_up = Listener(Interest(), "12-0")
    taking = asyncio.create_task(caught_up.take())
    await asyncio.sleep(0)
    for passed, position in (("9-0", "12-0"), ("12-0", "12-0"), ("12-1", "12-1")):
        caught_up.pass_over(passed)
        assert position == caught_up.position
    taking.cancel()
