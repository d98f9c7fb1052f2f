"""What else is in the same Redis costs a board's duties nothing, and what nobody has a use for is found all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.asyncio.client import Pipeline

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.ledger.players.memberships import change_membership
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index import keyspace_walk, reconcile
from gateway.steward.index.cold import ColdBoard
from gateway.steward.index.comparison.difference import Difference
from gateway.steward.index.reconcile import Reconciler
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies, load_board
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty, be_unused
from tests.support.valkey import ValkeyServer

ALIENS = 20_000
"""Twenty times what one call of SCAN examines."""

STEM = keys.stem("tiny")


@asynccontextmanager
async def a_duty(folder: Path, url: str) -> AsyncIterator[Duty]:
    boards.write_board(
        folder / "policies", cold_after_h=1, segments=["country"], windows=["alltime", "daily"]
    )
    settings = Settings(
        data_dir=folder / "data", policies_dir=folder / "policies", redis_url=url, redis_timeout_ms=5_000
    )
    known, redis = load_policies(settings), Redis.from_url(url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(redis), **parts)
        yield Duty(settings, known["tiny"], ledger, steward, redis)
    redis.close()


@pytest.fixture
async def duty(tmp_path: Path, valkey: ValkeyServer) -> AsyncIterator[Duty]:
    async with a_duty(tmp_path, valkey.url) as made:
        await made.fill()
        await made.settle_down()
        segments = made.index.of(made.board).segments
        assert segments is not None
        for player, country in (("ada", "at"), ("bob", "de"), ("cy", "at")):
            changed = await made.ledger.write(change_membership("tiny", player, {"country": country}))
            await segments.keep(changed, ["alltime"])
        await made.settle_down()
        yield made


def calls(redis: Redis) -> dict[str, int]:
    stats: Any = redis.info("commandstats")
    passed = ("cmdstat_info", "cmdstat_config")
    return {name: row["calls"] for name, row in stats.items() if not name.startswith(passed)}


def add_aliens(redis: Redis, count: int) -> None:
    pipe = redis.pipeline(transaction=False)
    for at in range(count):
        pipe.set(f"alien:{at}", "1")
    pipe.execute()


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {
        name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)
    }


async def test_a_board_is_compared_and_evicted_by_what_it_has_and_not_by_what_redis_has(duty: Duty):
    """Alone and beside many keys of others: the same commands, and none that looks through a server."""
    index, costs, left = duty.index.of(duty.board), [], []
    for aliens in (0, 0, ALIENS):  # the first time, Redis is also told its scripts
        add_aliens(duty.redis, aliens)
        be_unused(duty.redis, "tiny")
        before = calls(duty.redis)
        await Reconciler(duty.ledger, index, duty.board.policy, clock=duty.clock).step()
        cold = ColdBoard(duty.ledger, index, duty.board.policy, clock=duty.clock)
        assert await cold.evict()
        costs.append(difference(before, calls(duty.redis)))
        left.append(sorted(duty.redis.keys(f"{STEM}*")))
        assert not duty.redis.keys(f"{STEM}segment:*")
        await duty.rebuilder().rebuild()
    assert costs[1] == costs[2]
    assert left[1] == left[2]
    assert not {"cmdstat_scan", "cmdstat_keys"} & costs[1].keys()


async def test_a_small_board_is_compared_in_few_calls(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Its walks look together, and share snapshots of the ledger and round trips to Redis."""
    snapshots, trips, read, execute = [], [], duty.ledger.read, Pipeline.execute

    async def counted_read(*arguments: Any) -> Any:
        snapshots.append(1)
        return await read(*arguments)

    async def counted_trip(*arguments: Any, **options: Any) -> Any:
        trips.append(1)
        return await execute(*arguments, **options)

    index = duty.index.of(duty.board)
    reconciler = Reconciler(duty.ledger, index, duty.board.policy, clock=duty.clock)
    monkeypatch.setattr(duty.ledger, "read", counted_read)
    monkeypatch.setattr(Pipeline, "execute", counted_trip)
    assert 0 == await reconciler.step()
    assert 15 >= len(snapshots)  # 37, one after the other
    assert 24 >= len(trips)  # 48


async def test_a_board_in_many_shards_is_compared_a_few_walks_at_a_time(
    duty: Duty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its hundreds of slices fill neither one snapshot nor one round trip."""
    looks, under_way, most = 0, 0, 0

    async def look(_: object) -> list[Difference]:
        nonlocal looks, under_way, most
        looks, under_way = looks + 1, under_way + 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return []

    monkeypatch.setattr("gateway.steward.index.reconcile._EndlessWalk.look", look)
    board = load_board(boards.write_board(tmp_path / "policies", "wide", shards=64))
    reconciler = Reconciler(duty.ledger, duty.index.of(board), board.policy, clock=duty.clock)
    await reconciler.step()  # builds it
    assert 0 == await reconciler.step()
    assert (True, reconcile.WALKS_AT_ONCE) == (looks > 64, most)


async def test_a_round_examines_one_slice_of_the_keys_whatever_there_are(duty: Duty):
    """The walk goes on where it stopped: each round costs one call, and a lap over all keys meets what was forged."""
    add_aliens(duty.redis, ALIENS)
    forged = f"{STEM}segment:country:nowhere:alltime"
    duty.redis.zadd(forged, {"eve": 1})
    duty.redis.set(f"{STEM}no-such-thing", "1")
    rounds = 0
    while duty.redis.exists(forged, f"{STEM}no-such-thing"):
        before = calls(duty.redis)
        await duty.steward.reconcile()
        assert difference(before, calls(duty.redis)).get("cmdstat_scan", 0) <= 1
        rounds += 1
        assert rounds < 3 * ALIENS / keyspace_walk.SCANNED
    assert {b"at", b"de"} == {key.split(b":")[5] for key in duty.redis.keys(f"{STEM}segment:*")}


async def test_a_limit_for_probing_is_ours(duty: Duty):
    """What a player's refusals are counted by is no forgery: it outlives a lap, and one without an end does not."""
    duty.redis.set(f"{STEM}refused:player:ada", "7 0 0", px=60_000)
    duty.redis.set(f"{STEM}refused:player:eve", "7 0 0")
    await duty.settle_down()
    assert [1, 0] == [duty.redis.exists(f"{STEM}refused:player:{player}") for player in ("ada", "eve")]


async def test_a_slice_of_many_boards_is_compared_a_few_boards_at_a_time(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Whoever writes keys for many boards does not keep a round from its end: the others wait for the next."""
    monkeypatch.setattr(keyspace_walk, "BOARDS_AT_ONCE", 1)
    walk = duty.steward._in_index._keyspace
    duty.redis.set(f"{STEM}no-such-thing", "1")
    walk._unexplained.update({"tiny": [f"{STEM}no-such-thing".encode()], "other": [b"lb:{1}:other:x"]})
    assert ["tiny"] == list(await walk.steps())
    assert ["other"] == list(walk._unexplained)
