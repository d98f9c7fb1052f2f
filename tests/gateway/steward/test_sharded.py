"""A board in shards on a cluster: written by settlement, rebuilt, compared and told of like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.index.shards import ShardedIndex, shard_of
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.settlement.settle import project
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index import keyspace_walk
from gateway.steward.index.cold import ColdBoard
from gateway.wiring import load_policies, open_index, open_ledger
from policies.choices import WindowKind
from policies.loader import Policies
from policies.vocabulary import State
from policies.windows import window_at
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.cluster import ValkeyCluster
from tests.support.duty import Duty
from tests.support.valkey import ValkeyServer

SHARDS = 4


@pytest.fixture
async def duty(tmp_path: Path, cluster: ValkeyCluster, valkey: ValkeyServer) -> AsyncIterator[Duty]:
    boards.write_board(tmp_path / "policies", shards=SHARDS, windows=["alltime", "daily"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=cluster.url,
        queue_url=valkey.url,
        redis_timeout_ms=5_000,
    )
    known, queue = load_policies(settings), Redis.from_url(valkey.url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(queue), **parts)
        with cluster.client() as shown:
            yield Duty(settings, known["tiny"], ledger, steward, shown)
    queue.close()


async def crowd(duty: Duty, count: int = 30) -> None:
    ids = [f"crowd-{at}" for at in range(count)]
    await asyncio.gather(*(duty.append(each, player=f"p{at}", score=at % 7) for at, each in enumerate(ids)))
    await duty.promote(*ids)
    await duty.promote("crowd-3", to_state=State.REVOKED)
    await duty.append("waits")
    await duty.settle_down()


async def shown(duty: Duty) -> list[tuple[int, str, int]]:
    page = await index_of(duty).page("alltime", 0, 100)
    return [(entry.rank, entry.player, entry.score) for entry in page.entries]


def index_of(duty: Duty) -> ShardedIndex:
    index = duty.index.of(duty.board)
    assert isinstance(index, ShardedIndex)
    return index


def due(count: int = 30) -> list[tuple[int, str, int]]:
    stood = sorted((-(at % 7), at) for at in range(count) if at != 3)
    return [(rank, f"p{at}", at % 7) for rank, (_, at) in enumerate(stood, start=1)]


def found(cluster: ValkeyCluster, pattern: str) -> set[bytes]:
    masters = [node.redis for node in cluster.nodes if node.role() == "master"]
    return {key for master in masters for key in master.keys(pattern)}


def window_at_now(duty: Duty) -> bytes:
    return window_at(duty.board.policy, WindowKind.DAILY, duty.clock()).name.encode()


WINDOWS = {keys.window(f"tiny/{at}", "alltime").encode() for at in range(SHARDS)}


async def test_settled_runs_stand_in_shards_and_read_as_one_board(duty: Duty, cluster: ValkeyCluster):
    """The windows are in the shards alone; pages and neighbours are those of the whole; nothing differs."""
    await crowd(duty)
    assert due() == await shown(duty)
    assert WINDOWS == found(cluster, "lb:{*tiny*alltime")
    around = await index_of(duty).around("alltime", "p20", 2)
    assert around is not None
    place = next(at for at, (_, player, _) in enumerate(due()) if player == "p20")
    assert [player for _, player, _ in due()[place - 2 : place + 3]] == [e.player for e in around.entries]
    assert [] == await duty.differences()


async def test_a_rebuild_makes_the_same_shards(duty: Duty, cluster: ValkeyCluster):
    """What stood there before is gone, and what the ledger says is there; no lease and no built key is left."""
    await crowd(duty)
    duty.redis.zadd(keys.window("tiny/1", "alltime"), {"0" * 22 + ":eve": -999})
    duty.redis.zadd("lb:{201}:tiny:alltime", {"0" * 22 + ":eve": -999})
    duty.redis.delete(keys.members("tiny/2", "alltime"))
    done = await duty.rebuilder().rebuild()
    assert due() == await shown(duty)
    assert WINDOWS == found(cluster, "lb:{*tiny*alltime")
    assert 2 * 30 == done.standings
    assert not found(cluster, "lb:{*tiny*built:*") | found(cluster, "lb:{*tiny*building")
    assert [] == await duty.differences()


async def test_I04_an_emptied_node_has_its_shards_rebuilt(duty: Duty, cluster: ValkeyCluster):
    """The steward sees that a shard's sentinel is gone, whichever node had it."""
    await crowd(duty)
    for shard in range(SHARDS):
        cluster.master_of(f"tiny/{shard}").redis.flushall()
        assert 0 < await duty.steward.reconcile()
        assert due() == await shown(duty)


async def test_I04_a_wanted_board_of_which_a_shard_was_lost_is_built(duty: Duty):
    """The board's own sentinel is still there, and no eviction took the board away."""
    await crowd(duty, 8)
    wanted = ColdBoard(duty.ledger, index_of(duty), duty.board.policy, clock=duty.clock)
    assert not await wanted.warm()
    duty.redis.delete(keys.sentinel("tiny/1"))
    assert [True, False] == [await wanted.warm(), await wanted.warm()]
    assert due(8) == await shown(duty)


async def test_I26_what_is_forged_in_a_shard_is_taken_out(duty: Duty):
    """An entry of nobody, one in the shard of another, a wrong score, and a window under the board's own tag."""
    await crowd(duty)
    strange = (shard_of("p5", SHARDS) + 1) % SHARDS
    [member] = [
        e.place.member for e in (await index_of(duty).page("alltime", 0, 99)).entries if e.player == "p5"
    ]
    duty.redis.zadd(keys.window(f"tiny/{strange}", "alltime"), {member: -6, "0" * 22 + ":eve": -7})
    duty.redis.zadd(keys.window(f"tiny/{shard_of('p6', SHARDS)}", "alltime"), {"x": 1})
    duty.redis.hdel(keys.members(f"tiny/{shard_of('p7', SHARDS)}", "alltime"), "p7")
    duty.redis.zadd("lb:{201}:tiny:alltime", {"0" * 22 + ":eve": -999})
    assert 4 < len(await duty.differences())
    await duty.settle_down()
    assert due() == await shown(duty)
    assert [] == await duty.differences()


async def test_the_board_s_stream_tells_every_change_with_ranks_of_the_whole(duty: Duty):
    """One stream, in which ranks are the board's; what a crash left in a shard's stream is told by the steward."""
    await crowd(duty, 8)
    stream, relayed, shard = keys.changes("tiny"), keys.relayed("tiny"), shard_of("p0", SHARDS)
    [(seen, _)], cursor = duty.redis.xrevrange(stream, count=1), duty.redis.hget(relayed, shard)
    await duty.append("better", player="p0", score=9)
    await duty.promote("better")
    told = [fields for _, fields in duty.redis.xrange(stream, min=b"(" + seen)]
    assert [b"alltime", window_at_now(duty)] == [each[b"window"] for each in told]
    assert [(b"p0", b"1", b"6")] * 2 == [(e[b"player"], e[b"rank"], e[b"was_rank"]) for e in told]

    before = duty.redis.xlen(stream)
    duty.redis.hset(relayed, shard, cursor)  # as if the edge had died before it told
    for _ in range(2):
        await duty.steward.reconcile()
        assert before + 2 == duty.redis.xlen(stream)


async def test_a_change_that_a_build_overtakes_is_told_once_on_the_board_s_stream(duty: Duty):
    """Whichever shard it is in; its settlement then finds it in place."""
    await crowd(duty, 8)
    await duty.append("overtaken", player="p0", score=9)
    changes = await duty.commit("overtaken")
    await duty.rebuilder().rebuild()
    for _ in range(2):
        entries = [fields for _, fields in duty.redis.xrange(keys.changes("tiny"))]
        told = [each[b"window"] for each in entries if each[b"submission"] == b"overtaken"]
        assert [b"alltime", window_at_now(duty)] == told
        assert await project(duty.ledger, duty.index, duty.board, changes)
    assert (1, "p0", 9) == (await shown(duty))[0]
    assert [] == await duty.differences()


async def test_a_walk_meets_all_keys_of_each_node_before_those_of_the_next(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """However many slices a node's keys take, one lap over the nodes leaves none of them out."""
    monkeypatch.setattr(keyspace_walk, "SCANNED", 10)
    forged = [
        f"{keys.stem(f'tiny/{shard}')}no-such-thing-{at}" for shard in range(SHARDS) for at in range(50)
    ]
    for key in forged:
        duty.redis.set(key, 1)
    walk, slices = duty.steward._in_index._keyspace, 0
    while walk._servers or not slices:
        await walk._read_slice()
        slices += 1
    met = {key.decode() for found in walk._unexplained.values() for key in found}
    assert [] == [key for key in forged if key not in met]
