"""The Python client's `watch`: the events of a real gateway, over lost connections, a full house and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from scoregate_client import FeedEvent, HttpStream, ScoregateClient, ScoregateError, Unanswered
from scoregate_client import feed as client_feed
from scoregate_client.running import AsyncioRunner

from gateway.index import keys
from gateway.index.feed.listener import FeedEnd
from gateway.runtime.settings import Settings
from tests.support.feeds import add, caught_up, entry, listeners_of
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.ports import unserved_port
from tests.support.valkey import ValkeyServer


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", arcade_policy(), a_policy("vault", writes="trusted"))
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_feed, "FIRST_PAUSE_S", 0.01)


async def take(events: AsyncIterator[FeedEvent], count: int) -> list[tuple[str, Any]]:
    """Kind and score of the next events."""
    async with asyncio.timeout(20):
        found = [await anext(events) for _ in range(count)]
    return [(each.kind, each.data.get("score")) for each in found]


async def test_watching_goes_on_where_a_connection_ended(harness: Harness):
    """Whatever the feed was cut off for, and whatever came meanwhile, the next event is the next change."""
    client = harness.edge.index.client
    await add(client, entry("ada", 1))
    await caught_up(harness)
    async with (
        ScoregateClient(harness.url) as player,
        aclosing(player.watch("vault", window="alltime")) as events,
    ):
        assert [("begin", None)] == await take(events, 1)
        await add(client, entry("ada", 2))
        assert [("standing", 2)] == await take(events, 1)
        for number in (3, 5):
            for listener in tuple(listeners_of(harness)):
                listener.let_go(FeedEnd.BEHIND)
            await add(client, entry("ada", number), entry("bob", number + 1))
            assert [("standing", number), ("standing", number + 1)] == await take(events, 2)
        await client.delete(keys.changes("vault"))
        await add(client, entry("ada", 9))
        assert [("reset", None)] == await take(events, 1)


async def test_watching_players_and_resuming_by_hand(harness: Harness):
    """The query says what is followed, and `after` from where; the id of an event is what to keep."""
    client = harness.edge.index.client
    first, *_ = await add(client, entry("ada", 1), entry("ada", 2), entry("bob", 3))
    await caught_up(harness)
    async with ScoregateClient(harness.url) as player:
        watching = player.watch("vault", players=["bob"], events=["standing"], mode="newest", after=first)
        async with aclosing(watching) as events:
            assert [("standing", 3)] == await take(events, 1)


async def test_watching_friends_takes_a_token(harness: Harness):
    """With the player's token it begins; without one it is the caller's mistake."""
    async with ScoregateClient(harness.url, token=await harness.new_player()) as player:
        async with aclosing(player.watch("vault", friends=True)) as events:
            assert [("begin", None)] == await take(events, 1)
        player.token = None
        with pytest.raises(ValueError, match="token"):
            player.watch("vault", friends=True)


async def test_what_cannot_be_watched_is_raised(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """A refusal is an error at once; no seat, or no gateway, only after as many attempts as there are.

    The gateway says how long to wait for a seat.
    """
    pauses: list[float] = []

    async def note(_: object, pause_s: float) -> None:
        pauses.append(pause_s)

    async with ScoregateClient(harness.url, attempts=3) as player:
        for board, name in (("nowhere", "not-found"), ("vault", "schema-violation")):
            with pytest.raises(ScoregateError) as refusal:
                await take(player.watch(board, events=["joy"]), 1)
            assert name == refusal.value.name
        harness.edge.live._free = 0
        with monkeypatch.context() as patch:
            patch.setattr("scoregate_client.running.AsyncioRunner.sleep", note)
            with pytest.raises(ScoregateError) as refusal:
                await take(player.watch("vault"), 1)
        assert "temporary-reduced-capacity" == refusal.value.name
        assert (5.0, [5.0, 5.0]) == (refusal.value.retry_after_s, pauses)
    with unserved_port() as port:
        async with ScoregateClient(f"http://127.0.0.1:{port}", attempts=2) as player:
            with pytest.raises(ScoregateError) as lost:
                await take(player.watch("vault"), 1)
            assert 0 == lost.value.status


async def one_event(stream_id: str) -> AsyncIterator[bytes]:
    """The body of an answer with one event, which arrives in pieces, and ends."""
    for part in (f"id: {stream_id}\nev", "ent: begin\r\ndata", ": {}\n\n"):
        yield part.encode()


async def test_only_failures_in_a_row_are_counted():
    """An event forgives those before it: who watches for a year outlives any number of restarts."""
    asked: list[str | None] = []

    @asynccontextmanager
    async def connect(last: str | None) -> AsyncIterator[HttpStream]:
        asked.append(last)
        if len(asked) % 2:
            raise Unanswered
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        yield HttpStream(200, headers, one_event(f"{len(asked)}-0"))

    async with aclosing(client_feed.follow(connect, None, 2, asyncio.sleep)) as events:
        assert ["2-0", "4-0", "6-0"] == [(await anext(events)).id for _ in range(3)]
    assert [None, None, "2-0", "2-0", "4-0", "4-0"] == asked


async def test_who_never_gives_up_asks_twice_a_minute():
    """For days, where a machine has no network: the pauses grow no further, and nothing overflows."""
    pauses: list[float] = []

    async def note(pause_s: float) -> None:
        pauses.append(pause_s)

    @asynccontextmanager
    async def connect(_: str | None) -> AsyncIterator[HttpStream]:
        raise Unanswered
        yield

    with pytest.raises(ScoregateError):
        await anext(client_feed.follow(connect, None, 1_200, note))
    assert [0.02, 0.04] == pauses[:2]
    assert {30.0} == set(pauses[20:])
    assert 1_199 == len(pauses)


@pytest.mark.parametrize("status", [200, 400])
async def test_a_line_without_end_is_not_read_for_ever(status: int):
    """Neither of a feed nor of a refusal: whatever stands in front of the gateway, a game keeps its memory."""
    read: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            read.append(2**16)
            assert sum(read) < 2**20
            yield b"x" * 2**16

    @asynccontextmanager
    async def connect(_: str | None) -> AsyncIterator[HttpStream]:
        yield HttpStream(status, {"content-type": "text/event-stream"}, endless())

    with pytest.raises(ScoregateError) as ended:
        await anext(client_feed.follow(connect, None, 1, asyncio.sleep))
    assert (status if status != 200 else 0) == ended.value.status
    assert client_feed.LINE_BYTES < sum(read) <= client_feed.LINE_BYTES + 2**16


async def test_watching_waits_for_a_gateway_that_starts_again(settings: Settings):
    """An edge that ends lets its listeners go, and the next one on the same address goes on."""
    async with ScoregateClient(f"http://{settings.bind}", attempts=1000) as player:
        async with running_harness(settings) as harness:
            client = harness.edge.index.client
            await add(client, entry("ada", 1))
            await caught_up(harness)
            events = player.watch("vault")
            assert [("begin", None)] == await take(events, 1)
        async with running_harness(settings) as harness:
            await add(harness.edge.index.client, entry("ada", 2))
            assert [("standing", 2)] == await take(events, 1)
            await events.aclose()


async def test_a_hint_ends_one_pause_and_no_other() -> None:
    """Whoever waits for a verdict looks once more; without another hint the next pause is whole."""
    hint = asyncio.Event()

    async def hints() -> AsyncGenerator[object, None]:
        await hint.wait()
        yield "changed"
        await asyncio.Event().wait()

    async with AsyncioRunner().hinted(hints()) as pause:
        first = asyncio.create_task(pause(60))
        hint.set()
        await first
        second = asyncio.create_task(pause(60))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        second.cancel()


async def test_a_wait_goes_on_where_nothing_can_be_watched() -> None:
    """A feed that is refused, or lost for good, gives no hints: the pauses are whole, and the wait does not fail."""

    async def refused() -> AsyncGenerator[object, None]:
        raise ScoregateError(404, {})
        yield

    async with AsyncioRunner().hinted(refused()) as pause:
        for _ in range(3):
            await pause(0.0)
