"""The live feed: what changes is pushed, a listener that comes back misses nothing, a slow one is let go whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.boards import keys, live
from gateway.boards.live import LiveFeed, StandingChange
from gateway.settings import Settings
from policies.model import Order
from tests.support.attack import as_server, registered, until
from tests.support.harness import Harness, Request, running_harness
from tests.support.raw import RawConnection
from tests.support.valkey import running_valkey


class Listening(RawConnection):
    """A live feed, read event by event."""

    def __init__(self, harness: Harness, board: str = "vault", after: str | None = None) -> None:
        super().__init__(harness.authority)
        resume = f"Last-Event-ID: {after}\r\n" if after else ""
        self._request = (
            f"GET /v1/boards/{board}/live HTTP/1.1\r\nHost: {harness.authority}\r\n{resume}\r\n".encode()
        )

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.send(self._request)
        while await self.line() != b"retry: 2000\n":
            pass
        return self

    async def event(self) -> tuple[str, dict[str, Any]]:
        """Id and data of the next change of the all-time board."""
        while True:
            line = await self.line()
            assert line, "the feed has ended"
            if line.startswith(b"id: "):
                stream_id = line[4:].strip().decode()
                data = json.loads((await self.line()).removeprefix(b"data: "))
                if data["window"] == "alltime":
                    return stream_id, data

    async def scores(self, count: int) -> list[int]:
        return [(await self.event())[1]["score"] for _ in range(count)]


async def write(harness: Harness, private: Ed25519PrivateKey, score: int, player: str = "ada") -> None:
    entry = {"operation": f"{player}-{score}", "player": player, "score": score}
    assert 202 == (await as_server(harness, private, entry)).status


async def test_a_change_is_pushed_to_those_who_follow_its_board(harness: Harness):
    """A listener is told player, score, rank, window and submission of what changed; another board's is not."""
    private = await registered(harness)
    async with Listening(harness) as listener, Listening(harness, "sprint") as other:
        await write(harness, private, 7)
        _, change = await listener.event()
        facts = {"player": "ada", "name": "ada", "score": 7, "rank": 1, "window": "alltime"}
        assert facts == {name: change[name] for name in facts}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await other.event()


FORGED = [
    {"player": "eve"},
    {"window": "alltime", "player": "eve", "name": "eve", "order": "much", "rank": "1", "submission": "x"},
    {"\xff": "eve"},
    {
        b"window": b"daily:\xff",
        b"player": b"\xff",
        b"name": b"",
        b"order": b"",
        b"rank": b"",
        b"submission": b"",
    },
]


@pytest.mark.parametrize("fields", FORGED)
async def test_a_forged_entry_of_the_stream_does_not_end_the_feed(harness: Harness, fields: dict[Any, Any]):
    """What somebody wrote into Redis is passed over, live and by who resumes; the changes after it arrive."""
    private = await registered(harness)
    async with Listening(harness) as listener:
        await write(harness, private, 1)
        first, _ = await listener.event()
        await harness.edge.index.client.xadd(keys.changes("vault"), fields)
        await write(harness, private, 2)
        assert [2] == await listener.scores(1)
    async with Listening(harness, after=first) as resumed:
        assert [2] == await resumed.scores(1)


async def test_a_listener_that_comes_back_misses_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """From the last id it had, a listener gets everything since, over several pages, and then what is new."""
    monkeypatch.setattr(live, "RESUME_PAGE", 3)
    private = await registered(harness)
    async with Listening(harness) as listener:
        await write(harness, private, 1)
        last, _ = await listener.event()
    for score in range(2, 9):
        await write(harness, private, score)
    async with Listening(harness, after=last) as listener:
        assert list(range(2, 9)) == await listener.scores(7)
        await write(harness, private, 9)
        assert [9] == await listener.scores(1)


async def test_nothing_is_missed_between_catching_up_and_following(harness: Harness):
    """Changes that come while a listener catches up are told once each, in order."""
    private = await registered(harness)
    async with Listening(harness) as listener:
        await write(harness, private, 1)
        last, _ = await listener.event()

    async def keep_writing() -> None:
        for score in range(2, 40):
            await write(harness, private, score)

    writing = asyncio.create_task(keep_writing())
    seen: list[int] = []
    while len(seen) < 38:
        async with Listening(harness, after=last) as listener:
            for _ in range(min(5, 38 - len(seen))):
                last, change = await listener.event()
                seen.append(change["score"])
    await writing
    assert list(range(2, 40)) == seen


async def test_what_is_both_past_and_new_is_told_once(harness: Harness):
    """A change that a listener finds when it catches up, and that was pushed to it meanwhile, comes once."""
    private = await registered(harness)
    feed = harness.edge.live
    async with feed.listen("vault", "1-0") as changes:
        [listener] = feed._listeners["vault"]
        for score in (1, 2, 3):
            await write(harness, private, score)

        async def is_pushed() -> bool:
            return listener.qsize() == 3 * 4

        await until(is_pushed)
        seen = [(await anext(changes)).score for _ in range(3 * 4)]
        await write(harness, private, 4)
        seen += [(await anext(changes)).score for _ in range(4)]
    assert [score for score in (1, 2, 3, 4) for _ in range(4)] == seen


async def test_the_feed_outlives_redis(settings: Settings):
    """While Redis is away the listener waits; when it is back, with its file, the feed goes on."""
    with running_valkey() as own:
        async with running_harness(settings.model_copy(update={"redis_url": own.url})) as harness:
            private = await registered(harness)
            async with Listening(harness) as listener:
                await write(harness, private, 1)
                last, _ = await listener.event()
                own.kill()
                await write(harness, private, 2)
                own.start()
                harness.clock.shift(60)
                assert await harness.steward().project()
                assert [2] == await listener.scores(1)
            async with Listening(harness, after=last) as again:
                assert [2] == await again.scores(1)


@pytest.mark.parametrize("after", ["x", "1", "1-", "-1", "1-1-1", "1-1\u0661", "9" * 16 + "-0"])
async def test_an_id_that_is_none_of_ours_is_refused(harness: Harness, after: str):
    """A `Last-Event-ID` is the id of an event, or the request is malformed."""
    answer = await harness.send(Request("GET", "/v1/boards/vault/live", b"", {"Last-Event-ID": after}))
    assert (400, "malformed-request") == (answer.status, answer.problem)


def a_change(number: int) -> StandingChange:
    return StandingChange(f"{number}-0", "alltime", "ada", "Ada", number, 1, f"s{number}")


async def test_a_listener_that_falls_behind_is_let_go_without_a_hole(monkeypatch: pytest.MonkeyPatch):
    """What it was given before the end is without a gap, so it can resume from the last id; others are not disturbed."""
    monkeypatch.setattr(live, "LISTENER_LIMIT", 4)
    feed = LiveFeed(None, {"b": Order.DESCENDING})  # type: ignore[arg-type] - nothing is read here
    feed._has_position.set()
    async with feed.listen("b") as slow, feed.listen("b") as quick:
        seen: list[str] = []
        feed._publish("b", [a_change(1)])
        assert "1-0" == (await anext(slow)).stream_id
        for number in range(2, 10):
            feed._publish("b", [a_change(number)])
            if number == 2:
                assert "1-0" == (await anext(quick)).stream_id
            seen.append((await anext(quick)).stream_id)
        assert [f"{number}-0" for number in range(2, 10)] == seen
        assert [] == [change async for change in slow]
    assert 0 == feed.listeners("b")


async def test_a_listener_that_could_not_be_told_what_it_missed_is_let_go(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """If the past cannot be read the feed ends: going on from now would leave a hole that nobody notices."""

    async def refuse(*_args: Any, **_more: Any) -> Any:
        raise ConnectionError("gone")

    monkeypatch.setattr(harness.edge.live._client, "xrange", refuse)
    async with harness.edge.live.listen("vault", "1-0") as changes:
        assert [] == [change async for change in changes]


async def test_a_player_who_stands_no_more_is_told_of(harness: Harness):
    """A change without score and rank says that nothing of the player counts any more."""
    feed = harness.edge.live
    fields = {"window": "alltime", "player": "ada", "name": "", "order": "", "submission": "", "rank": "0"}
    change = feed._change("vault", "1-0", fields)
    assert (None, None) == (change.score, change.rank)
