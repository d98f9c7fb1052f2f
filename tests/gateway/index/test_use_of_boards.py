"""Which boards are in use, and that a board leaves Redis whole, at rest and by itself or not at all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from redis.asyncio import Redis

from gateway.index import keys, residency
from gateway.index.connection import refuse_evicting
from gateway.index.residency import Residency, ResidencyState
from policies.errors import IndexUnavailable, SettingsError
from tests.support.policies import a_ranking

LIFE_MS = 2 * 3_600_000
POLICY = a_ranking("b", cold_after_h=2).policy


async def test_use_is_noted_for_a_board_that_may_go_and_seldom(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """At once for who misses it, else as often as the time that it may be idle needs; of other boards never."""
    now_s = [1_000.0]
    monkeypatch.setattr(residency, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    stays, goes = Residency(client, a_ranking("b").policy), Residency(client, POLICY)
    await stays.note_use(is_missed=True)
    assert (False, True, 0) == (stays.is_limited, goes.is_limited, await client.exists(keys.used("b")))
    noted = []
    for after_s, is_missed in ((0, False), (143, False), (0, True), (143, False), (1, False)):
        now_s[0] += after_s
        await client.delete(keys.used("b"))
        await goes.note_use(is_missed=is_missed)
        noted.append(await client.exists(keys.used("b")))
    assert [1, 0, 1, 0, 1] == noted
    assert LIFE_MS - 60_000 < await client.pttl(keys.used("b")) <= LIFE_MS


async def test_a_board_stays_for_its_time_from_its_last_use_on(client: Redis):
    """One that nobody used has none."""
    goes, now_ms = Residency(client, POLICY), 1_700_000_000_000
    assert await goes.idle_until(now_ms=now_ms) is None
    await goes.note_use()
    until_ms = await goes.idle_until(now_ms=now_ms)
    assert until_ms is not None
    assert LIFE_MS - 60_000 < until_ms - now_ms <= LIFE_MS


async def test_those_who_use_a_board_at_once_note_it_once_and_again_if_that_failed(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    goes, noted = Residency(client, POLICY), []
    note, is_away = goes._note, [True]

    async def away_at_first(marks: list[str], values: list[object]) -> object:
        if is_away:
            is_away.pop()
            raise IndexUnavailable
        noted.append(1)
        return await note(marks, values)

    monkeypatch.setattr(goes, "_note", away_at_first)
    with pytest.raises(IndexUnavailable):
        await goes.note_use()
    await asyncio.gather(*(goes.note_use() for _ in range(10)))
    assert ([1], 1) == (noted, await client.exists(keys.used("b")))


async def test_a_board_is_taken_away_while_it_is_whole_and_nobody_has_it(client: Redis):
    """Not while it is used, nor while it is rebuilt, nor in parts; then it is cold, as of when."""
    board, windows = Residency(client, POLICY), [keys.window("b", "alltime"), keys.members("b", "alltime")]
    for key in windows:
        await client.set(key, "1")
    states = [await board.state()]
    told = [await board.evict(windows, now_ms=7)]
    await client.set(keys.sentinel("b"), "1")
    for mark in (keys.used("b"), keys.lease("b")):
        await client.set(mark, "1")
        told.append(await board.evict(windows, now_ms=7))
        states.append(await board.state())
        await client.delete(mark)
    assert [False] * 3 == told
    assert len(windows) == await client.exists(*windows)
    assert await board.evict(windows, now_ms=7)
    states.append(await board.state())
    assert {"*": "7"} == await client.hgetall(keys.cold("b"))
    assert 0 == await client.exists(*windows)
    assert [
        ResidencyState(is_whole=False, is_cold=False, is_used=False),
        ResidencyState(is_whole=True, is_cold=False, is_used=True),
        ResidencyState(is_whole=True, is_cold=False, is_used=False),
        ResidencyState(is_whole=False, is_cold=True, is_used=False),
    ] == states


async def test_a_redis_that_may_evict_keys_is_refused(client: Redis):
    """A board with holes is worse than an error at the start."""
    await refuse_evicting(client)
    await client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SettingsError, match="maxmemory-policy allkeys-lru"):
            await refuse_evicting(client)
    finally:
        await client.config_set("maxmemory-policy", "noeviction")
