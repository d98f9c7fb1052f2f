"""An upgrade from the keys before lanes: they go in slices, nothing pending is lost, and reads are right meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, RedisCluster
from redis.asyncio import Redis as Client
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.reads.board_reader import BoardReader
from gateway.index import keys
from gateway.index.connection import connect
from gateway.index.earlier_layout import EarlierLayout
from gateway.ledger.migrate import upgrade_postgres
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index import layout_upgrade
from gateway.steward.index.layout_upgrade import LayoutUpgrade
from gateway.wiring import load_policies, open_index, open_ledger
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from policies.loader import Policies
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.cluster import ValkeyCluster
from tests.support.duty import Duty
from tests.support.earlier_layout import (
    CARRIED,
    FOREIGN,
    MINUTE_MS,
    copy_as_earlier,
    earlier_keys,
    write_earlier_keys,
)
from tests.support.metrics import metric
from tests.support.postgres import OWNER
from tests.support.stores import PostgresStore, SqliteStore, Store, on_both_ledgers
from tests.support.valkey import ValkeyServer

Server = ValkeyServer | ValkeyCluster

on_one_and_on_a_cluster = pytest.mark.parametrize("server", ["valkey", "cluster"], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


@pytest.fixture
def redis(server: Server) -> Redis | RedisCluster:
    """A client that is told everything in bytes."""
    return Redis.from_url(server.url) if isinstance(server, ValkeyServer) else server.client()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    connected = connect(server.url, timeout_ms=30_000)
    yield connected
    await connected.aclose()


def names_in(redis: Redis | RedisCluster) -> list[bytes]:
    """Every key, of all nodes."""
    everywhere = {"target_nodes": RedisCluster.PRIMARIES} if isinstance(redis, RedisCluster) else {}
    return redis.keys("*", **everywhere)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Duty]:
    known, redis = load_policies(settings), Redis.from_url(settings.redis_url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(redis), **parts)
        yield Duty(settings, known["tiny"], ledger, steward, redis)
    redis.close()


@asynccontextmanager
async def empty_beside(store: Store) -> AsyncIterator[Store]:
    """An empty database beside one that carries a ledger."""
    if isinstance(store, SqliteStore):
        yield SqliteStore(store.path.with_name("earlier.sqlite3"))
        return
    async with store.server.database("template0") as name:
        yield PostgresStore(store.server, name)


def settings_of(folder: Path, url: str, store: Store) -> Settings:
    boards.write_board(folder / "policies", windows=["alltime", "daily"])
    return Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=url,
        redis_timeout_ms=5_000,
        ledger_url=store.url,
    )


async def to_the_end(client: Client) -> None:
    upgrade = LayoutUpgrade(client, list)
    while await upgrade.step():
        pass


def removed_by_metrics() -> float:
    return metric("scoregate_earlier_keys_removed_total")


@on_both_ledgers
async def test_a_deployment_of_the_version_before_goes_on_with_all_it_had(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Its ledger is migrated, its keys go: pages are right before, meanwhile and after, and what waits still waits."""
    async with opened(settings_of(tmp_path, valkey.url, store)) as duty:
        await duty.fill()
    valkey.client().flushall()
    async with empty_beside(store) as earlier:
        await copy_as_earlier(store, earlier)
        write_earlier_keys(Redis.from_url(valkey.url))
        if isinstance(earlier, PostgresStore):
            await upgrade_postgres(earlier.server.url(earlier.database, OWNER))
        async with opened(settings_of(tmp_path, valkey.url, earlier)) as duty:
            await check_upgrade(duty, monkeypatch)


async def check_upgrade(duty: Duty, monkeypatch: pytest.MonkeyPatch) -> None:
    index = duty.index.of(duty.board)
    index.guard()
    reader, pages = BoardReader(index, duty.ledger), []
    monkeypatch.setattr(layout_upgrade, "SCANNED", 8)

    async def look() -> None:
        answer = await reader.page("alltime", 0, 10, RankKind.UNIQUE)
        pages.append(([entry.player for entry in answer.page.entries], answer.is_from_index))

    await look()
    before, steps = removed_by_metrics(), []
    with capture_logs() as logs:
        while done := await duty.steward.upgrade_index():
            steps.append(done)
            await look()
            assert not duty.redis.exists("lb:{tiny}:whole"), "an edge of before must read the ledger"
    assert set() == earlier_keys(duty.redis.keys("*"))
    assert len(steps) > 4, "in slices"
    assert {(("ada", "cy", "bob"), False)} == {(tuple(players), source) for players, source in pages}
    removed = int(removed_by_metrics() - before)
    assert ["index_upgrade_begun", "index_upgrade_ended"] == [log["event"] for log in logs]
    assert removed == logs[1]["removed"]
    assert {b"is": b"lanes", b"removed": str(removed).encode()} == duty.redis.hgetall(keys.layout())
    assert {b"theirs"} == set(duty.redis.mget(FOREIGN))
    assert [0] == [await duty.steward.upgrade_index()]

    await duty.steward.reconcile()
    await duty.settle_down()
    await look()
    assert (["ada", "cy", "bob"], True) == pages[-1]
    duty.assert_index_is_the_ledgers()
    assert 2 == await duty.steward.dispatch()


@on_one_and_on_a_cluster
async def test_what_is_in_redis_alone_moves_with_the_time_that_it_has_left(
    client: Client, redis: Redis | RedisCluster
):
    """Limits, open runs, and counts of runs and refusals; what is there already stays, what never ends goes."""
    write_earlier_keys(redis)
    values = {name: redis.dump(name) for name in CARRIED}
    redis.set("lb:{201}:tiny:limit:player:ada", "newer", px=MINUTE_MS)
    await to_the_end(client)
    everywhere = names_in(redis)
    assert set() == earlier_keys(everywhere)
    assert sorted([*FOREIGN, *CARRIED.values(), keys.layout()]) == sorted(key.decode() for key in everywhere)
    assert b"newer" == redis.get("lb:{201}:tiny:limit:player:ada")
    moved = {old: new for old, new in CARRIED.items() if "limit" not in old}
    assert {old: values[old] for old in moved} == {old: redis.dump(new) for old, new in moved.items()}
    left = {old: redis.pttl(new) for old, new in moved.items()}
    assert all(0 < left_ms <= 10 * MINUTE_MS for left_ms in left.values())


@on_one_and_on_a_cluster
async def test_a_steward_that_dies_in_the_middle_leaves_the_rest_to_the_next(
    client: Client, redis: Redis | RedisCluster, server: Server, monkeypatch: pytest.MonkeyPatch
):
    """Killed after a slice, and stopped between the copy of a value and its removal: nothing is lost or done twice."""
    write_earlier_keys(redis)
    count = 3_000
    for at in range(count):
        redis.set(f"lb:{{gone}}:limit:player:p{at}", "1 1", px=10 * MINUTE_MS)
    victim = subprocess.Popen(  # noqa: ASYNC220 - it begins at once
        [sys.executable, "-c", VICTIM, server.url],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": "."},
    )
    assert victim.stdout is not None
    while b"removed" not in (line := await asyncio.to_thread(victim.stdout.readline)):
        assert line, "the victim died by itself"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    assert not (await EarlierLayout(client).state()).is_current
    assert earlier_keys(names_in(redis)), "it died in the middle"

    async def die(*_: object) -> None:
        raise IndexUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(EarlierLayout, "_unlink", die)
        with pytest.raises(IndexUnavailable):
            await to_the_end(client)
    await to_the_end(client)
    assert set() == earlier_keys(names_in(redis))
    assert count == sum(b":gone:limit:player:p" in name for name in names_in(redis))
    assert b"1 1" == redis.get(f"{keys.stem('gone')}limit:player:p7")
    assert (await EarlierLayout(client).state()).is_current


VICTIM = """
import asyncio, sys
from gateway.index.connection import connect
from gateway.steward.index import layout_upgrade

async def main():
    layout_upgrade.SCANNED = 100
    upgrade = layout_upgrade.LayoutUpgrade(connect(sys.argv[1], timeout_ms=30_000), list)
    for _ in range(5):
        await upgrade.step()
    print("removed", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
async def test_it_ends_once_no_edge_of_before_writes_any_more(client: Client, redis: Redis):
    """Its keys go in every pass; a pass that met none is the last, and from then on one question is asked."""
    upgrade = LayoutUpgrade(client, list)
    for at in range(3):
        redis.zadd("lb:{tiny}:pending", {f"run-{at}": at})
        await upgrade.step()
        assert [0, 0] == [redis.exists("lb:{tiny}:pending"), redis.hexists(keys.layout(), "is")]
    assert [1, 0] == [await upgrade.step(), await upgrade.step()]
    asked = redis.info("stats")["total_commands_processed"]
    assert 0 == await upgrade.step()
    assert 2 == redis.info("stats")["total_commands_processed"] - asked  # this question, and the one about it
    redis.flushall()  # or a copy from before is put back
    redis.zadd("lb:{tiny}:pending", {"run": 1})
    assert [1, 1, 0] == [await upgrade.step() for _ in range(3)]
    assert not redis.exists("lb:{tiny}:pending")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
async def test_a_full_redis_is_freed_all_the_same(client: Client, redis: Redis):
    """Where nothing may be added, no value moves and nothing is noted; the keys go, and make room."""
    write_earlier_keys(redis)
    redis.config_set("maxmemory", "1")
    upgrade = LayoutUpgrade(client, list)
    try:
        await upgrade.step()
        assert set() == earlier_keys(names_in(redis))
    finally:
        redis.config_set("maxmemory", "0")
    while await upgrade.step():
        pass
    assert b"lanes" == redis.hget(keys.layout(), "is")


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
async def test_from_its_first_step_on_an_edge_of_before_reads_the_ledger(
    client: Client, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The sentinels of boards and of their shards go first; after a failure it asks anew which nodes there are."""
    board = boards.board(tmp_path, shards=2)
    sentinels = [f"lb:{{{part}}}:whole" for part in ("tiny", "tiny/0", "tiny/1", "other")]
    redis.mset(dict.fromkeys(sentinels, 1))
    asked, primaries = [0], layout_upgrade.primaries

    async def counted(client: Client) -> list[Any]:
        asked[0] += 1
        return await primaries(client)

    async def fail(*_: Any, **__: Any) -> None:
        raise IndexUnavailable

    monkeypatch.setattr(layout_upgrade, "primaries", counted)
    upgrade = LayoutUpgrade(client, lambda: [board])
    with monkeypatch.context() as patch:
        patch.setattr(EarlierLayout, "remove_slice", fail)
        with pytest.raises(IndexUnavailable):
            await upgrade.step()
    assert sentinels[3:] == [name for name in sentinels if redis.exists(name)]
    assert (1, 1) == (asked[0], await upgrade.step())
    assert 2 == asked[0]


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
async def test_it_does_not_end_while_the_nodes_become_others(client: Client, monkeypatch: pytest.MonkeyPatch):
    """A replica that took over meanwhile may have keys that no pass has met."""
    nodes = [[None], [None, None], [None], [None]]

    async def primaries(_client: Client) -> list[None]:
        return nodes.pop(0)

    monkeypatch.setattr(layout_upgrade, "primaries", primaries)
    upgrade, layout = LayoutUpgrade(client, list), EarlierLayout(client)
    assert [1, False] == [await upgrade.step(), (await layout.state()).is_current]
    assert [1, True] == [await upgrade.step(), (await layout.state()).is_current]
    assert [] == nodes
