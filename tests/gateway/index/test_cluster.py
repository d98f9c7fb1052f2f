"""The client of a Redis Cluster: how it is named, that it waits rather than fails, and that it sends nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import NodesManager
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError

from gateway.edge.health.probes import Probes
from gateway.index import cluster as cluster_module
from gateway.index import keys
from gateway.index.cluster import keys_by_server, scan
from gateway.index.connection import _cluster_of, connect, refuse_evicting
from gateway.index.gathered_commands import Command, GatheredCommands
from gateway.index.lane_stream import grown_after, newest_ids
from gateway.index.scripts import Script, index_boundary
from gateway.index.transactions import transact
from gateway.runtime.lanes import LANES
from gateway.runtime.settings import CLUSTER_URL, load_settings
from policies.errors import IndexUnavailable, SettingsError
from tests.support.cluster import PATIENCE_S, ValkeyCluster
from tests.support.ports import unserved_port
from tests.support.valkey import ValkeyServer


@pytest.fixture
async def client(cluster: ValkeyCluster) -> AsyncIterator[Redis]:
    connected = connect(cluster.url, timeout_ms=5_000)
    yield connected
    await connected.aclose()


def test_a_cluster_is_named_by_some_of_its_nodes():
    """Hosts, ports, one user and password for all, TLS, and options of the connections."""
    found = CLUSTER_URL.fullmatch("rediss+cluster://ada:p%40ss@one:7000,[::1]:7001,two?ssl_cert_reqs=none")
    seeds, common = _cluster_of(found)
    assert [("one", 7000), ("::1", 7001), ("two", 6379)] == seeds
    expected = {"username": "ada", "password": "p@ss", "ssl": True, "ssl_cert_reqs": "none"}
    assert expected == common


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://one:7000/1",
        "redis+cluster://one:seven",
        "redis+cluster://one:7000,",
        "redis+cluster://ada:p@ss@one:7000",
        "valkey+cluster://one:7000",
    ],
)
def test_a_wrong_name_of_a_cluster_is_refused_at_start(url: str):
    """A database, a port that is none, a character that should have been escaped: the setting is named."""
    with pytest.raises(SettingsError, match=r"SCOREGATE_REDIS_URL: expected redis\+cluster://"):
        load_settings(redis_url=url)


def test_the_queue_is_on_no_cluster():
    """RQ cannot run on one: who configures that is told, by the variable to set."""
    cluster = "redis+cluster://one:7000"
    with pytest.raises(SettingsError, match="SCOREGATE_QUEUE_URL: RQ does not run on a Redis Cluster"):
        load_settings(queue_url=cluster)
    with pytest.raises(SettingsError, match="SCOREGATE_QUEUE_URL: set it"):
        _ = load_settings(redis_url=cluster).jobs_url
    assert "redis://q" == load_settings(redis_url=cluster, queue_url="redis://q").jobs_url


async def test_more_calls_than_connections_wait(client: Redis):
    """A burst of calls is answered, each with its own reply, however few connections there are."""
    await asyncio.gather(*(client.set(f"{{{at}}}", at) for at in range(500)))
    assert [*map(str, range(500))] == await asyncio.gather(*(client.get(f"{{{at}}}") for at in range(500)))


async def test_the_lanes_that_have_grown_are_told_from_those_that_have_not(client: Redis):
    """Each after its own end, whichever node has it; a lane without changes has not grown."""
    *streams, unused = (keys.lane_changes(lane) for lane in range(7))
    ends = {key: str(await client.xadd(key, {"board": "b"})) for key in streams} | {unused: "0-0"}
    await client.delete(unused)
    assert set() == await grown_after(client, ends)
    for key in streams[::2]:
        await client.xadd(key, {"board": "b"})
    assert set(streams[::2]) == await grown_after(client, ends)


async def test_a_look_at_the_ends_of_lanes_reads_no_other_part_of_them(client: Redis, cluster: ValkeyCluster):
    """Of each lane the last change, which is all that the nodes send."""

    def sent_bytes() -> int:
        return sum(int(node.redis.info("stats")["total_net_output_bytes"]) for node in cluster.nodes)

    lanes = [keys.lane_changes(lane) for lane in range(3)]
    async with client.pipeline(transaction=False) as pipe:
        for number in range(900):
            pipe.xadd(lanes[number % 3], {"board": "b", "stats": "x" * 200})
        ids = [str(each) for each in await pipe.execute()]
    before = sent_bytes()
    assert dict(zip(lanes, ids[-3:], strict=True)) == await newest_ids(client, lanes)
    assert sent_bytes() - before < 100_000


SLOW = """
local ends_s = os.clock() + 0.2
while os.clock() < ends_s do end
return redis.call('INCR', KEYS[1])
"""


async def by_command(client: Redis) -> None:
    await client.eval(SLOW, 1, "{201}")


async def by_pipeline(client: Redis) -> None:
    async with client.pipeline(transaction=False) as pipe:
        pipe.eval(SLOW, 1, "{201}")
        await pipe.execute()


async def by_transaction(client: Redis) -> None:
    await transact(client, "{201}", [("EVAL", SLOW, 1, "{201}")])


async def has_a_connection(client: Redis) -> bool:
    """Whether the node has run a script: what is sent to it next is on its way before any limit ends."""
    try:
        with index_boundary():
            return await client.eval("return redis.call('EXISTS', KEYS[1])", 1, "{201}") == 0
    except IndexUnavailable:
        return False


@pytest.mark.parametrize("send", [by_command, by_pipeline, by_transaction])
async def test_I02_a_call_whose_reply_was_lost_is_not_sent_again(
    cluster: ValkeyCluster, send: Callable[[Redis], Awaitable[None]]
):
    """The node does once what it was asked for once, though the client gave up waiting for it."""
    client = connect(cluster.url, timeout_ms=50)
    client.timeout_s = PATIENCE_S  # there would be time to try again
    while not await has_a_connection(client):  # on a busy machine making one may take longer than the limit
        pass
    with pytest.raises(IndexUnavailable), index_boundary():
        await send(client)
    await client.aclose()
    assert b"1" == cluster.master_of("tiny").redis.get("{201}")


async def test_I02_nor_is_one_to_a_single_server(valkey: ValkeyServer):
    """A charge or a change that it has made already would be made twice."""
    client = connect(valkey.url, timeout_ms=50)
    while not await has_a_connection(client):  # as above
        pass
    with pytest.raises(IndexUnavailable), index_boundary():
        await by_command(client)
    await client.aclose()
    with valkey.client() as redis:
        assert ["1", "1"] == [
            redis.get("{201}"),
            str(redis.eval("return redis.call('GET', KEYS[1])", 1, "{201}")),
        ]


@pytest.mark.parametrize("kind", ["one", "cluster"])
async def test_I02_a_transaction_that_was_refused_leaves_no_reply_to_the_next(
    request: pytest.FixtureRequest, kind: str
):
    """Where the first command is refused, as by a node that has the slot no more, the answers to the others are unread."""
    server: ValkeyServer | ValkeyCluster = request.getfixturevalue("valkey" if kind == "one" else "cluster")
    client = connect(server.url, timeout_ms=5_000)
    for number in range(3):
        with pytest.raises(ResponseError, match="NO-SUCH"):
            await transact(client, "{201}", [("NO-SUCH",), ("ECHO", "refused")])
        assert [str(number)] == await transact(client, "{201}", [("ECHO", number)])
    await client.aclose()


@pytest.mark.parametrize("kind", ["one", "cluster"])
async def test_a_command_that_fails_within_a_transaction_is_not_taken_for_done(
    request: pytest.FixtureRequest, kind: str
):
    """Redis runs the others, and its error is one reply among theirs: whoever asked hears of it."""
    server: ValkeyServer | ValkeyCluster = request.getfixturevalue("valkey" if kind == "one" else "cluster")
    client = connect(server.url, timeout_ms=5_000)
    assert ["1", "2"] == await transact(client, "{201}", [("ECHO", 1), ("ECHO", 2)])
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await transact(client, "{201}", [("SET", "{201}", 1), ("ZADD", "{201}", 1, "a"), ("ECHO", 2)])
    await client.aclose()


async def test_a_cluster_nobody_answers_for_is_an_index_that_is_not_there():
    """No node at any of the addresses is IndexUnavailable, as with one server that is down."""
    with unserved_port() as one, unserved_port() as two:
        client = connect(f"redis+cluster://127.0.0.1:{one},127.0.0.1:{two}", timeout_ms=500)
        with pytest.raises(IndexUnavailable):
            await Script(client, "read_page")(
                ["lb:{249}:b:alltime", "lb:{249}:b:alltime:members", "lb:{249}:b:names"], [0, 9]
            )
        with pytest.raises(IndexUnavailable), index_boundary():
            await by_pipeline(client)
        await refuse_evicting(client)
        await client.aclose()


async def test_commands_that_are_sent_together_wait_once_for_a_cluster_nobody_answers_for(
    monkeypatch: pytest.MonkeyPatch,
):
    """All of them fail by one look for its nodes: each look takes as long as a node may take to answer."""
    discover, looks = NodesManager.initialize, []

    async def noted(*arguments: Any, **options: Any) -> None:
        looks.append(1)
        await discover(*arguments, **options)

    monkeypatch.setattr(NodesManager, "initialize", noted)
    with unserved_port() as port:
        client = connect(f"redis+cluster://127.0.0.1:{port}", timeout_ms=500)
        commands = GatheredCommands(client)
        asked = [[Command(("GET", keys.sentinel(name)))] for name in ("tiny", "vault", "arcade")]
        answers = await asyncio.gather(*map(commands.answers, asked), return_exceptions=True)
        await client.aclose()
    assert ([1], 3) == (looks, sum(isinstance(each, NoConnection) for each in answers))


async def test_I06_one_node_that_may_evict_is_enough_to_refuse(client: Redis, cluster: ValkeyCluster):
    """Every node is asked, replicas too: they are the masters of tomorrow."""
    await refuse_evicting(client)
    for node in cluster.nodes:
        node.redis.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(SettingsError, match="allkeys-lru"):
            await refuse_evicting(client)
        node.redis.config_set("maxmemory-policy", "noeviction")


async def test_a_scan_walks_the_node_of_the_board_alone(client: Redis, cluster: ValkeyCluster):
    """Every key of the board comes, and none of what other nodes have."""
    for at in range(300):
        await client.set(f"lb:{{201}}:tiny:limit:player:p{at}", 1)
        await client.set(f"lb:{{33}}:vault:limit:player:p{at}", 1)
    seen, cursor, turns = [], 0, 0
    while cursor or not turns:
        cursor, found = await scan(client, "lb:{201}:tiny:", cursor, match="*", count=50)
        seen, turns = seen + found, turns + 1
    held = cluster.master_of("tiny").redis.keys("*")
    assert turns > 1
    assert 300 == len(held)
    assert set(held) == set(seen)


async def test_keys_are_grouped_by_the_server_that_has_them(client: Redis, valkey: ValkeyServer):
    """One call goes to each node of a cluster, and one to a single server."""
    streams = [keys.lane_changes(lane) for lane in range(LANES)]
    groups = await keys_by_server(client, streams)
    assert 3 == len(groups)
    assert all(60 < len(group) < 110 for group in groups)
    assert sorted(streams) == sorted(key for group in groups for key in group)
    single = connect(valkey.url, timeout_ms=100)
    assert [streams] == await keys_by_server(single, streams)
    await single.aclose()


async def test_a_key_whose_slot_no_node_has_is_grouped_with_no_other(
    client: Redis, monkeypatch: pytest.MonkeyPatch
):
    """Whoever asks for it hears so, and those who ask for others have their answers."""
    node_of = cluster_module.node_of
    lost, *others = [keys.lane_changes(lane) for lane in range(9)]

    async def without_a_slot(client: Any, key: str) -> Any:
        if key == lost:
            raise NoConnection("no node has the slot")
        return await node_of(client, key)

    expected = await keys_by_server(client, others)
    monkeypatch.setattr(cluster_module, "node_of", without_a_slot)
    groups = await keys_by_server(client, [*others, lost])
    assert [*expected, [lost]] == groups


async def test_commands_that_are_sent_together_fail_with_their_own_server(cluster: ValkeyCluster):
    """A server that does not answer in time is none for its own boards, and the others' have their answers."""
    paused = cluster.master_of("tiny")
    other = next(name for name in map(str, range(100)) if cluster.master_of(name) is not paused)
    hasty = connect(cluster.url, timeout_ms=300)
    commands = GatheredCommands(hasty)
    asked = [[Command(("SET", keys.sentinel(name), name))] for name in ("tiny", other)]
    assert [[True]] * 2 == await asyncio.gather(*map(commands.answers, asked))
    paused.redis.execute_command("CLIENT", "PAUSE", 600)
    asked = [[Command(("GET", keys.sentinel(name)))] for name in ("tiny", other, "tiny")]
    answers = await asyncio.gather(*map(commands.answers, asked), return_exceptions=True)
    assert [True, [other], True] == [isinstance(each, Exception) or each for each in answers]
    await hasty.aclose()
    paused.redis.execute_command("CLIENT", "UNPAUSE")


async def test_readiness_asks_each_node_once_also_where_no_board_has_a_file(
    client: Redis, cluster: ValkeyCluster
):
    """Boards of families may be on any lane: one node that takes no writes is an index that is not ready."""
    ledger: Any = SimpleNamespace(write=AsyncMock(), is_refusing=False)
    index: Any = SimpleNamespace(client=client)
    masters = [node.redis for node in cluster.nodes if node.role() == "master"]
    probes = Probes(ledger, index)
    before = [calls_of_set(node) for node in masters]
    assert (True, True) == await probes.answers()
    assert [calls + 1 for calls in before] == [calls_of_set(node) for node in masters]
    for node in masters:
        node.config_set("min-replicas-to-write", 2)
        probes.forget()
        assert (True, False) == await probes.answers()
        node.config_set("min-replicas-to-write", 0)


def calls_of_set(node: Any) -> int:
    return int(node.info("commandstats").get("cmdstat_set", {"calls": 0})["calls"])


async def test_B02_pipelines_and_transactions_wait_for_a_connection(client: Redis, cluster: ValkeyCluster):
    """However many are asked for at once, none fails for the lack of one: commands, pipelines and transactions alike."""

    async def pipelined(at: int) -> int:
        async with client.pipeline(transaction=False) as pipe:
            pipe.hset("lb:{201}:tiny:names", str(at), "")
            pipe.hget("lb:{201}:tiny:names", str(at))
            return len(await pipe.execute())

    async def transacted(at: int) -> int:
        return len(
            await transact(client, "lb:{201}:tiny:names", [("HSET", "lb:{201}:tiny:names", f"t{at}", "")])
        )

    count = 250
    await client.hlen("lb:{201}:tiny:names")  # so that it knows the nodes
    cluster.master_of("tiny").redis.execute_command("CLIENT", "PAUSE", 500)
    asked = [work(at) for at in range(count) for work in (pipelined, transacted)]
    single = [client.hlen("lb:{201}:tiny:names") for _ in range(count)]
    done = await asyncio.gather(*asked, *single)
    assert [2, 1] * count == done[: 2 * count]
    assert 2 * count == await client.hlen("lb:{201}:tiny:names")


async def test_redis_is_told_whose_connections_they_are(client: Redis, valkey: ValkeyServer):
    """`CLIENT LIST` shows the product and its version beside the library, on one server and on a cluster."""
    one_server = connect(valkey.url, timeout_ms=5_000)
    told = [await one_server.client_info(), await client.client_info(target_nodes="random")]
    await one_server.aclose()
    expected = (f"redis-py(scoregate_v{version('scoregate')})", version("redis"))
    assert [expected] * 2 == [(each["lib-name"], each["lib-ver"]) for each in told]
