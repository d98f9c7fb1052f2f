"""A listener that comes back after long: what it is told of the past is bounded, and beyond that it is told to read anew."""

from __future__ import annotations

import secrets

import pytest

from gateway.index import keys
from gateway.index.feed import catch_up_budget
from tests.support.attack import registered
from tests.support.feeds import Told, add, caught_up, entry, sse, websocket
from tests.support.groups import by_server, token_of
from tests.support.harness import Harness

WATCHED = [f"w{number}" for number in range(100)]


async def overtaken_often(harness: Harness, times: int, *, follower: str = "ada") -> str:
    """Has all that are watched, whom a player follows, be passed so many times; gives the id of the first change after they stood."""
    key = await registered(harness)
    friends = {"operation": "f-1", "friends": WATCHED}
    sent = by_server(harness, key, "PUT", f"/v1/players/{follower}/friends", friends)
    assert 200 == (await harness.send(sent)).status
    operations = [
        {"action": "write", "operation": secrets.token_hex(8), "player": player, "score": 1}
        for player in WATCHED
    ]
    sent = by_server(harness, key, "POST", "/v1/boards/vault/entries/batch", operations)
    assert 200 == (await harness.send(sent)).status
    client = harness.edge.index.client
    [first] = await add(client, entry("first", 10))
    async with client.pipeline(transaction=False) as pipe:
        for number in range(times):
            pipe.xadd(keys.changes("vault"), entry(f"p{number}", 11 + number))
        await pipe.execute()
    await caught_up(harness)
    return first


async def told_until(feed: object, player: str, most: int) -> list[Told]:
    """The events up to the one about a player, or up to a reset, which have to come among the first `most`."""
    found: list[Told] = []
    while not found or not (found[-1].kind == "reset" or found[-1].data.get("player") == player):
        assert len(found) < most
        found.append(await feed.event())  # type: ignore[attr-defined]
    return found


async def told_until_reset(feed: object, most: int) -> list[Told]:
    """The events up to the reset, which has to come among the first `most`."""
    found: list[Told] = []
    while not found or found[-1].kind != "reset":
        assert len(found) < most
        found.append(await feed.event())  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("follow", [sse, websocket])
@pytest.mark.parametrize("times", [200, 3_000])
async def test_F05_catching_up_is_bounded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, follow: object, times: int
):
    """A hundred watched players, passed by everybody: a reset after some events, and at once when it is far too much."""
    monkeypatch.setattr(
        catch_up_budget, "MOST_S", 60.0
    )  # it is the count that ends it, on a busy machine too
    after = await overtaken_often(harness, times)
    query = f"window=alltime&players={','.join(WATCHED)}&after={after}"
    async with follow(harness, query) as feed:  # type: ignore[operator]
        found = await told_until_reset(feed, catch_up_budget.MOST_EVENTS + 2)
        assert {"overtaken", "reset"} >= {each.kind for each in found}
        assert (len(found) > 1) == (times == 200)
        await add(harness.edge.index.client, entry("after", 20_000))
        while (told := await feed.event()).data.get("player") != "w0":  # it goes on from the reset
            pass
        assert "after" == told.data["by"]["player"]


@pytest.mark.parametrize("times", [200, 5_000])
async def test_F05_catching_up_with_a_whole_board_is_bounded(harness: Harness, times: int):
    """Everybody's changes, as long as they are not too many; else a reset, and it goes on from there."""
    after = await overtaken_often(harness, times)
    async with sse(harness, f"window=alltime&after={after}") as feed:
        found = await told_until(feed, f"p{times - 1}", catch_up_budget.MOST_EVENTS + 2)
        assert (times == 5_000) == (found[-1].kind == "reset")
        assert (times == 200) == (
            [f"p{at}" for at in range(200)] == [each.data.get("player") for each in found]
        )
        await add(harness.edge.index.client, entry("after", 20_000))
        assert "after" == (await told_until(feed, "after", 2))[-1].data["player"]


@pytest.mark.parametrize("times", [200, 5_000])
async def test_F05_catching_up_with_friends_is_bounded(harness: Harness, times: int):
    """Who passed the bearer meanwhile, as long as they are not too many; else a reset, and it goes on from there."""
    after = await overtaken_often(harness, times, follower="w0")
    query = f"window=alltime&friends=true&after={after}"
    async with sse(harness, query, token=token_of(harness, "w0")) as feed:
        found: list[Told] = []
        while not found or not (
            found[-1].kind == "reset" or found[-1].data["by"]["player"] == f"p{times - 1}"
        ):
            assert len(found) < catch_up_budget.MOST_EVENTS + 2
            found.append(await feed.event())
        assert (times == 5_000) == (found[-1].kind == "reset")
        assert times == 5_000 or times == len(found)
        await add(harness.edge.index.client, entry("after", 20_000))
        told = await feed.event()
        assert ("w0", "after") == (told.data["player"], told.data["by"]["player"])


async def test_F05_catching_up_takes_no_longer_than_its_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """However few changes there are: where looking at them takes too long it is a reset, and it goes on from there."""
    monkeypatch.setattr(catch_up_budget, "MOST_S", 0.0)
    after = await overtaken_often(harness, 20)
    async with sse(harness, f"window=alltime&after={after}") as feed:
        assert ["reset"] == [each.kind for each in await told_until_reset(feed, 2)]
        await add(harness.edge.index.client, entry("after", 20_000))
        assert "after" == (await feed.standing())["player"]
