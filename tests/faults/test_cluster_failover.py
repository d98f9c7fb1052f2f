"""A Redis Cluster that loses a master in the middle of the work: requests end in time, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from gateway.index import keys
from gateway.index.connection import connect
from gateway.index.generation import Generation
from gateway.index.transactions import transact
from gateway.runtime.settings import Settings
from policies.ranking import player_at
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.cluster import REPLICATED, ClusterNode, ValkeyCluster
from tests.support.harness import Answer, free_port
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, PATIENCE_S, World, a_world

SOURCE = "Scoregate-Source"
"""The header of a page that is not of the index."""

ELSEWHERE = "vault"
"""A board of another master than `tiny`."""


@pytest.fixture
async def world(
    tmp_path: Path, cluster: ValkeyCluster, valkey: ValkeyServer, sandbox: Sandbox
) -> AsyncIterator[World]:
    for board in (REPLICATED, ELSEWHERE):
        boards.write_board(tmp_path / "policies", board, windows=["alltime", "daily"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=cluster.url,
        queue_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
        redis_timeout_ms=500,
    )
    async with a_world(settings, sandbox, valkey) as world:
        world.redis.close()
        world.redis = cluster.client()
        yield world


@pytest.fixture
def stopped_replica(cluster: ValkeyCluster) -> Iterator[ClusterNode]:
    """The replica, which hears nothing and takes nothing over until it is told to go on."""
    replica = cluster.replica
    replica.silence()
    yield replica
    replica.wake()


async def entries(world: World, board: str = REPLICATED) -> Answer:
    async with asyncio.timeout(PATIENCE_S):
        return await world.harness.get(f"/v1/boards/{board}/entries")


async def scores(world: World, board: str = REPLICATED) -> list[int]:
    """The scores of a board as soon as the index shows them: until the nodes are looked for again, the ledger does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await entries(world, board)
            if answer.status == 200 and SOURCE not in answer.headers:
                return [entry["score"] for entry in answer.body["entries"]]
            await asyncio.sleep(0.05)


async def take_over(cluster: ValkeyCluster, replica: ClusterNode) -> None:
    replica.wake()
    await asyncio.to_thread(cluster.await_takeover, replica)


async def test_I03_what_a_replica_had_not_seen_is_shown_again_after_it_took_over(
    world: World, cluster: ValkeyCluster, stopped_replica: ClusterNode
):
    """A killed master takes acknowledged entries along; the ledger has them, and the steward shows them again."""
    master = cluster.master_of(REPLICATED)
    master.redis.execute_command("CLIENT", "KILL", "TYPE", "replica")  # it buffers nothing from now on
    runs = [await world.submitted(player, points) for player, points in (("ada", 8), ("bob", 5))]
    await world.verify(*(run.id for run in runs))
    await world.submitted("cy")
    await world.edge.index.drained()
    assert [8, 5] == await scores(world)
    master.kill()
    await take_over(cluster, stopped_replica)

    assert 0 == stopped_replica.redis.exists(keys.window(REPLICATED, "alltime"))
    history = await world.assert_whole()
    assert ["promoted"] * 3 == list(history.states().values())
    assert [8, 5, 5] == await scores(world)


@pytest.mark.parametrize("disable", [ClusterNode.kill, ClusterNode.silence])
async def test_requests_end_in_time_while_a_master_is_gone(
    world: World, cluster: ValkeyCluster, stopped_replica: ClusterNode, disable: Callable[[ClusterNode], None]
):
    """Without a master, dead or silent: runs are taken, its board is read from the ledger, readiness tells."""
    run = await world.submitted("ada", 3)
    await world.verify(run.id)
    master = cluster.master_of(REPLICATED)
    disable(master)
    async with asyncio.timeout(PATIENCE_S):
        late = await world.submitted("bob", 4)
        answer = await entries(world)
        assert ("ledger", [3]) == (answer.headers[SOURCE], [each["score"] for each in answer.body["entries"]])
        assert "degraded" == (await world.harness.ready()).body["status"]
        assert [] == await scores(world, ELSEWHERE)
        await world.verify(late.id)
    await take_over(cluster, stopped_replica)
    master.wake()
    await scores(world)
    await world.assert_whole()
    assert [4, 3] == await scores(world)
    assert (await world.harness.ready()).body["index"]


async def test_a_graceful_failover_under_load_loses_nothing(world: World, cluster: ValkeyCluster):
    """While the replica takes over, runs are taken and judged; a page is of the index, or of the ledger."""
    replica, is_over, statuses = cluster.replica, asyncio.Event(), set()

    async def play() -> None:
        number = 0
        while not is_over.is_set() or number < 10:
            number += 1
            run = await world.submitted(f"p{number}", 2 + number % 7)
            await world.verify(run.id)
            statuses.add((await entries(world)).status)

    async with asyncio.TaskGroup() as group:
        group.create_task(play())
        await asyncio.to_thread(cluster.hand_over, replica)
        is_over.set()
    assert cluster.master_of(REPLICATED) is replica
    assert {200} == statuses
    await world.assert_whole()


async def test_a_board_whose_slot_is_moved_key_by_key_is_read_from_the_ledger(
    world: World, cluster: ValkeyCluster
):
    """While its keys are on two nodes runs are taken and judged; once they are on one, the index shows all of them."""
    early = await world.submitted("ada", 3)
    await world.verify(early.id)
    assert [3] == await scores(world)
    with cluster.moving(REPLICATED) as move:
        move.begin()
        move.take(keys.window(REPLICATED, "alltime"))
        async with asyncio.timeout(PATIENCE_S):
            late = await world.submitted("bob", 5)
            await world.verify(late.id)
            answer = await entries(world)
        assert ("ledger", [5, 3]) == (
            answer.headers[SOURCE],
            [each["score"] for each in answer.body["entries"]],
        )

        move.take()
        move.end()
        await scores(world)
        await world.assert_whole()
        assert [5, 3] == await scores(world)


RANKING = a_ranking(REPLICATED)


async def test_a_rebuild_goes_on_with_the_master_that_took_over(cluster: ValkeyCluster):
    """Pages before and after a failover are one generation: the node that has the slot no more says so, and is left."""
    client = connect(cluster.url, timeout_ms=5_000)
    built = Generation(client, RANKING)
    await built.begin()
    await built.put_standings([a_standing("ada", 7, ranking=RANKING)])
    replica = cluster.replica
    cluster.master_of(REPLICATED).redis.execute_command("WAIT", 1, 0)
    cluster.hand_over(replica)
    await built.put_standings([a_standing("bob", 8, ranking=RANKING)])
    await built.swap(["alltime"])
    await built.finish()
    members = await client.zrange(keys.window(REPLICATED, "alltime"), 0, -1)
    assert ["bob", "ada"] == [player_at(each) for each in members]
    await client.aclose()


async def test_a_transaction_follows_a_slot_that_is_moved(cluster: ValkeyCluster):
    """ASK while the slot is on its way and MOVED once it is there: done once, on the node that has it."""
    client = connect(cluster.url, timeout_ms=5_000)
    key = keys.lease("moved")
    with cluster.moving("moved") as move:
        move.begin()
        assert [1] == await transact(client, key, [("INCR", key)])
        with pytest.raises(ResponseError):
            move.source.redis.get(key)

        move.end()
        assert [2, "2"] == await transact(client, key, [("INCR", key), ("GET", key)])
        assert b"2" == move.target.redis.get(key)
    await client.aclose()
