"""What stands under us in every bad state short of being gone: behind, full, read-only, evicting, or out of time."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.ledger.submissions import work
from gateway.runtime.settings import Settings
from gateway.wiring import open_index, open_ledger
from policies.errors import LedgerUnavailable, SettingsError
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.boards import tiny_claim
from tests.support.deployment import Deployment, client_of, deployed
from tests.support.harness import free_port
from tests.support.ledger import is_intact, new_submission, rows
from tests.support.valkey import ValkeyServer, running_valkey
from tests.support.world import LEASE_S, World, a_world

NOBODY = 65_534


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    with running_valkey() as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path, own_valkey: ValkeyServer, sandbox: Sandbox) -> AsyncIterator[World]:
    boards.write_board(tmp_path / "policies", windows=["alltime", "daily"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=own_valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
    )
    async with a_world(settings, sandbox, own_valkey) as world:
        yield world


async def test_I03_a_redis_that_knows_less_than_the_last_one_catches_up(
    world: World, own_valkey: ValkeyServer, tmp_path: Path
):
    """After a failover to a copy that lags, everything acknowledged since is on the board again; nobody rebuilt it all."""
    before = await world.submitted("ada", points=3)
    await world.verify(before.id)
    await world.reconcile()
    own_valkey.kill()
    shutil.copytree(own_valkey.folder / "appendonlydir", tmp_path / "lagging")
    own_valkey.start()

    better, other = await world.submitted("ada", points=8), await world.submitted("bob", points=5)
    await world.verify(better.id, other.id)
    await world.submitted("cy")
    await world.edge.index.drained()
    own_valkey.kill()
    shutil.rmtree(own_valkey.folder / "appendonlydir")
    shutil.copytree(tmp_path / "lagging", own_valkey.folder / "appendonlydir")
    own_valkey.start()

    stale = await world.harness.get("/v1/boards/tiny/entries")
    assert [3] == [entry["score"] for entry in stale.body["entries"]]
    history = await world.assert_whole()
    assert ["promoted"] * 4 == list(history.states().values())


async def test_I06_a_redis_that_may_evict_is_refused_at_start(world: World, own_valkey: ValkeyServer):
    """A board with holes is worse than an error: the setting is named, with what it should be."""
    settings = world.edge.settings
    for policy in ("allkeys-lru", "volatile-ttl"):
        world.redis.config_set("maxmemory-policy", policy)
        with pytest.raises(SettingsError, match=f"{policy}.*noeviction"):
            async with open_index(settings):
                pass
    world.redis.config_set("maxmemory-policy", "noeviction")
    async with open_index(settings):
        pass


def out_of_memory(world: World) -> None:
    world.redis.config_set("maxmemory", 1)


def a_replica(world: World) -> None:
    world.redis.replicaof("127.0.0.1", "1")


def without_replicas(world: World) -> None:
    world.redis.config_set("min-replicas-to-write", 1)


def unable_to_save(world: World) -> None:
    (world.valkey.folder / "dump.rdb").mkdir()
    world.redis.config_set("save", "3600 1")
    world.redis.bgsave()


async def refuses_writes(world: World) -> str:
    """What Redis says to a write, once it says no."""
    async with asyncio.timeout(20):
        while True:
            try:
                world.redis.set("a write", "1")
            except Exception as error:  # noqa: BLE001 - redis-py has a class for each of these
                return str(error)
            await asyncio.sleep(0.01)


def well_again(world: World) -> None:
    if (world.valkey.folder / "dump.rdb").is_dir():
        (world.valkey.folder / "dump.rdb").rmdir()
    world.redis.config_set("maxmemory", 0)
    world.redis.config_set("min-replicas-to-write", 0)
    world.redis.config_set("save", "")
    world.redis.replicaof("NO", "ONE")


@pytest.mark.parametrize("state", [out_of_memory, a_replica, without_replicas, unable_to_save])
async def test_I01_a_redis_that_takes_no_writes_costs_no_submission(world: World, state):
    """Out of memory, a read-only replica, too few replicas, a snapshot that fails: 202, judged, and shown afterwards."""
    await world.verify((await world.submitted("ada", points=2)).id)
    state(world)
    assert await refuses_writes(world)
    assert "degraded" == (await world.harness.ready()).body["status"]
    runs = [await world.submitted("bob", points=points) for points in (4, 6)]
    assert 0 == await world.steward.dispatch()
    await world.verify(*(run.id for run in runs))
    assert {"promoted"} == set((await world.history()).states().values())
    well_again(world)
    history = await world.assert_whole()
    assert 6 == len(history.events)


@pytest.mark.parametrize("hours", [-1, 1, 24 * 400])
async def test_I19_a_clock_that_is_set_loses_no_work(world: World, hours: int):
    """Set back or ahead with work pending and leased: nothing expires, and each run gets its one verdict."""
    waits, leased = await world.submitted("ada", points=2), await world.submitted("bob", points=3)
    await world.steward.dispatch()
    await _lease(world, leased.id)
    world.harness.clock.shift(hours * 3600)
    late = await world.submitted("cy", points=4)
    await world.verify(waits.id, late.id)
    assert {"pending", "promoted"} == set((await world.history()).states().values())
    world.harness.clock.offset_ms = max(0, world.harness.clock.offset_ms)
    world.harness.clock.shift(3600)
    history = await world.assert_whole()
    assert {waits.id: "promoted", leased.id: "promoted", late.id: "promoted"} == history.states()
    assert 6 == len(history.events)


async def _lease(world: World, submission_id: str) -> None:
    """Somebody took the submission and was never heard of again."""
    now_ms = world.harness.clock()
    leases = await world.edge.ledger.write(work.lease_all([submission_id], now_ms=now_ms, lease_ms=60_000))
    assert 1 == len(leases)


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path, valkey) as deployment:
        yield deployment


@contextmanager
def no_file_may_grow(pid: int, path: Path) -> Iterator[None]:
    """The disk of one process is full: what would make a file larger than this one is fails (EFBIG, not ENOSPC)."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


async def test_I18_an_edge_whose_disk_is_full_says_503_and_recovers_by_itself(house: Deployment):
    """Nothing is acknowledged, nothing half written; with room again the very same bytes are taken."""
    edge = house.start("serve")
    await house.is_answering()
    async with client_of(house) as client:
        kept = await client.submitted()
        run = await client.open_run()
        request = client.harness.signed(run, tiny_claim(run.info["seed"]), board="tiny")
        with no_file_may_grow(edge.pid, house.ledger.with_name("ledger.sqlite3-wal")):
            refused = await client.harness.send(request)
            board = await client.harness.get("/v1/boards/tiny/entries")
            ready = await client.harness.get("/readyz")
            assert {kept.id} == house.states().keys()
        answer = await client.harness.send(request)
    assert (503, "temporary-reduced-capacity", "1") == (
        refused.status,
        refused.problem,
        refused.headers["Retry-After"],
    )
    assert 503 == ready.status
    assert {
        "status": "unready",
        "ledger": False,
        "index": True,
        "policies": True,
    }.items() <= ready.body.items()
    assert (200, 202) == (board.status, answer.status)
    assert {kept.id, run.id} == house.states().keys()
    assert is_intact(house.ledger)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without the right of root to write what is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_I09_a_ledger_on_a_read_only_place_is_refused_at_start(world: World):
    """The path and the reason are told; what is in the file stays as it is."""
    settings, folder = world.edge.settings, world.edge.settings.data_dir / "sealed"
    folder.mkdir()
    url = SecretStr(f"sqlite:///{folder / 'ledger.sqlite3'}")
    sealed = settings.model_copy(update={"ledger_url": url})
    async with open_ledger(sealed) as ledger:
        await ledger.append(new_submission("kept"))
    for parent in folder.parents:  # only added to: one of them may be a folder that all share
        mode = parent.stat().st_mode
        if mode & 0o055 != 0o055:
            parent.chmod(mode | 0o055)
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with unprivileged():
        with pytest.raises(LedgerUnavailable, match=r"ledger\.sqlite3"):
            async with open_ledger(sealed):
                pass
    folder.chmod(0o755)
    assert [("kept",)] == rows(folder / "ledger.sqlite3", "SELECT submission_id FROM submissions")
