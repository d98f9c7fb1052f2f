"""A listener that comes back after long: what it is told of the past is bounded, and beyond that it is told to read anew."""

from __future__ import annotations

import secrets

import pytest

from gateway.boards import keys
from gateway.boards.feed import catching_up
from tests.support.attack import registered
from tests.support.feeds import Told, add, caught_up, entry, sse, websocket
from tests.support.groups import by_server
from tests.support.harness import Harness

WATCHED = [f"w{number}" for number in range(100)]


async def overtaken_often(harness: Harness, times: int) -> str:
    """Has all that are watched be passed so many times; gives the id of the first change after they stood."""
    key = await registered(harness)
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


async def told_until_reset(feed: object, most: int) -> list[Told]:
    """The events up to the reset, which has to come among the first `most`."""
    found: list[Told] = []
    while not found or found[-1].kind != "reset":
        assert len(found) < most
        found.append(await feed.event())  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("follow", [sse, websocket])
@pytest.mark.parametrize("times", [200, 3_000])
async def test_F05_catching_up_is_bounded(harness: Harness, follow: object, times: int):
    """A hundred watched players, passed by everybody: a reset after some events, and at once when it is far too much."""
    after = await overtaken_often(harness, times)
    query = f"window=alltime&players={','.join(WATCHED)}&after={after}"
    async with follow(harness, query) as feed:  # type: ignore[operator]
        found = await told_until_reset(feed, catching_up.MOST_EVENTS + 2)
        assert {"overtaken", "reset"} >= {each.kind for each in found}
        assert (len(found) > 1) == (times == 200)
        await add(harness.edge.index.client, entry("after", 20_000))
        while (told := await feed.event()).data.get("player") != "w0":  # it goes on from the reset
            pass
        assert "after" == told.data["by"]["player"]
