"""The channel of the newest changes: each told once, in order, whoever announces and whatever somebody wrote beside it."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import ChangeStream
from gateway.index.feed import announcer
from gateway.index.feed.announcer import Announcer
from gateway.runtime.lanes import lane_of
from tests.support.feeds import entry
from tests.support.policies import a_ranking

PATIENCE_S = 20.0


async def test_changes_are_announced_once_and_in_order(client: Redis, monkeypatch: pytest.MonkeyPatch):
    """Of what nobody announced, the newest of each player; of what was before the first announcement, or is lost, the last alone."""
    monkeypatch.setattr(announcer, "CLAIMED_AT_ONCE", 4)
    stream, lane = ChangeStream(client, a_ranking()), lane_of("b")

    async def stream_of(board: str) -> ChangeStream | None:
        return stream if board == "b" else None

    several = [
        Announcer(
            client, stream_of, lambda event: f"{event.change.seq if event.change else None} {event.stream_id}"
        )
        for _ in range(2)
    ]
    number, ids = 0, {}
    channel = client.pubsub()
    await channel.subscribe(keys.news("b"))
    await channel.get_message(timeout=PATIENCE_S)

    async def announced(players: str) -> list[int]:
        """What is told after changes of these players, by two edges at once; each by its own id."""
        nonlocal number
        for player in players:
            number += 1
            ids[number] = await client.xadd(stream.lane.key, entry(player, number, board="b"))
        await asyncio.gather(*(each.announce(lane) for each in several))
        await client.publish(keys.news("b"), "end")
        told = []
        while (text := (await channel.get_message(timeout=PATIENCE_S))["data"]) != "end":
            seq, stream_id = text.split()
            assert ids[int(seq)] == stream_id
            told.append(int(seq))
        return told

    assert [] == await announced("")
    assert [3] == await announced("abc")
    assert [4, 5] == await announced("ba")
    assert [7, 8] == await announced("aba")  # the newest of each, as they came
    # Four are claimed at once, by one edge or the other.
    assert [10, 11, 12, 14, 15, 16, 17] == sorted(await announced("abcabcabc"))
    assert [] == await announced("")
    for lost in ("nowhere", "1-1"):
        await client.set(keys.announced(lane), lost)
        assert [number + 2] == await announced("ab")
        assert [number + 1, number + 2] == await announced("ab")
    await channel.aclose()
