"""Open runs, and how many of them were opened and submitted within a day."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.board_index import BoardIndex, CommittedRun
from gateway.index.connection import connect
from gateway.index.limits.open_runs import COUNTS_LIFE_MS, HOUR_MS, OpenRuns, RunOpening
from tests.support.policies import a_ranking
from tests.support.ports import unserved_port
from tests.support.valkey import ValkeyServer

NOON_MS = (int(time.time() * 1000) // HOUR_MS + 1) * HOUR_MS
"""The begin of the next hour: by the clock of Redis itself nothing of it expires while the suite runs."""

LIFE_MS = 2 * HOUR_MS


@pytest.fixture
async def client(valkey: ValkeyServer) -> AsyncIterator[Redis]:
    running = connect(valkey.url, timeout_ms=2000)
    yield running
    await running.aclose()


async def opened(client: Redis, run: str, at_ms: int = NOON_MS, most: int = 100) -> RunOpening:
    return await OpenRuns(client, "b", most).note("ada", run, now_ms=at_ms, expires_at_ms=at_ms + LIFE_MS)


async def test_P21_a_run_knows_what_came_before_it(client: Redis):
    """Each is told how many the player had opened, not counting itself, and how many of those were submitted."""
    index = BoardIndex(client, a_ranking("b"))
    assert RunOpening(True, 0, 0) == await opened(client, "r1")
    assert RunOpening(True, 1, 0) == await opened(client, "r2")
    await index.close_runs([CommittedRun("r1", "ada", NOON_MS + 1, is_pending=False)])
    assert RunOpening(True, 2, 1) == await opened(client, "r3")


async def test_P21_a_day_is_twenty_four_hours(client: Redis):
    """What was opened in an hour counts until that hour is a day ago, at any time of the day."""
    await opened(client, "r1")
    assert RunOpening(True, 1, 0) == await opened(client, "r2", NOON_MS + 24 * HOUR_MS - 1)
    assert RunOpening(True, 1, 0) == await opened(client, "r3", NOON_MS + 24 * HOUR_MS)
    hours = set(await client.hkeys(keys.run_counts("b", "ada")))
    assert {f"opened:{NOON_MS // HOUR_MS + 23}", f"opened:{NOON_MS // HOUR_MS + 24}"} == hours


async def test_a_run_is_counted_once_however_often_it_is_noted(client: Redis):
    """Notes that come twice, and runs that were refused, add nothing."""
    index = BoardIndex(client, a_ranking("b"))
    for _ in range(2):
        await opened(client, "r1")
    assert RunOpening(False, 1, 0) == await opened(client, "r2", most=1)
    for _ in range(2):
        await index.close_runs([CommittedRun("r1", "ada", NOON_MS)])
    assert RunOpening(True, 1, 1) == await opened(client, "r2", most=1)


async def test_counts_go_by_themselves(client: Redis):
    """A day after the last run nothing is left of them."""
    await opened(client, "r1")
    assert 0 < await client.pttl(keys.run_counts("b", "ada")) <= COUNTS_LIFE_MS


async def test_without_redis_the_counts_are_unknown_and_not_zero():
    """A run may be opened all the same."""
    with unserved_port() as port:
        nowhere = connect(f"redis://127.0.0.1:{port}/0", timeout_ms=100)
        try:
            assert RunOpening(True, None, None) == await opened(nowhere, "r1")
        finally:
            await nowhere.aclose()


async def test_F07_runs_of_a_clock_that_was_ahead_do_not_stay_open(client: Redis):
    """What an edge opened while its clock was an hour ahead is not held against the player."""
    runs = OpenRuns(client, "b", 1)
    hour_ms = 3_600_000
    seconds, _ = await client.time()
    now_ms = seconds * 1000
    ahead = await runs.note("ada", "r1", now_ms=now_ms + hour_ms, expires_at_ms=now_ms + 2 * hour_ms)
    now = await runs.note("ada", "r2", now_ms=now_ms, expires_at_ms=now_ms + hour_ms)
    assert (True, True) == (ahead.may_open, now.may_open)


async def test_a_run_that_has_expired_leaves_room_while_others_are_open(client: Redis):
    """Each ends at its own time: who left one half way has that one back then, though another is still open."""
    runs = OpenRuns(client, "b", 2)
    ends_ms = [NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS, NOON_MS + 3 * HOUR_MS]
    for number, expires_at_ms in enumerate(ends_ms[:2]):
        await runs.note("ada", f"r{number}", now_ms=NOON_MS, expires_at_ms=expires_at_ms)
    later = [
        await runs.note("ada", "r2", now_ms=now_ms, expires_at_ms=ends_ms[2])
        for now_ms in (ends_ms[0] - 1, ends_ms[0])
    ]
    assert [False, True] == [each.may_open for each in later]


async def test_what_was_decided_at_once_is_known_for_an_hour(client: Redis):
    """Where nothing is ever promoted, as in an attack, nothing else would take the oldest out of Redis."""
    index = BoardIndex(client, a_ranking("b"))
    for number, at_ms in enumerate((NOON_MS, NOON_MS + 1, NOON_MS + HOUR_MS)):
        await index.close_runs([CommittedRun(f"r{number}", "ada", at_ms, is_pending=False)])
    assert ["r1", "r2"] == await client.zrange(keys.settled("b"), 0, -1)
