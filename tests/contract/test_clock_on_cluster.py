"""The shared clock of a deployment whose index is a Redis Cluster: one node's, which everybody asks."""

from __future__ import annotations

import asyncio
import time

from gateway.deployment.reference_clock import ReferenceClock
from gateway.deployment.time_sources import RedisTime
from gateway.index.connection import connect
from tests.support.cluster import ValkeyCluster, wait_until


def asked(cluster: ValkeyCluster) -> dict[int, int]:
    """How often each node that runs was asked for its time, by its port."""
    running = [each for each in cluster.nodes if each.is_running]
    told = {each.port: each.redis.info("commandstats").get("cmdstat_time", {}) for each in running}
    return {port: int(stats.get("calls", 0)) for port, stats in told.items()}


async def test_F19_everybody_asks_the_same_node_of_a_cluster_for_the_time(cluster: ValkeyCluster):
    """Two processes measure one clock; when its node is lost they go on by their steady ones, and then ask its successor."""
    clients = [connect(cluster.url, timeout_ms=1_000) for _ in range(2)]
    clocks = [ReferenceClock([RedisTime(client)]) for client in clients]
    before = asked(cluster)
    for clock in clocks:
        async with asyncio.timeout(30):
            while not clock.is_measured:  # a busy machine takes longer than a measurement may
                await clock.measure()
        assert clock.error_ms < 1_000
        assert abs(clock() - time.time() * 1000) < 1_000
    counts = {port: count - before[port] for port, count in asked(cluster).items() if count != before[port]}
    [(port, count)] = counts.items()
    assert cluster.master_of("lb:clock").port == port
    assert count >= len(clocks)

    cluster.master_of("lb:clock").kill()
    for clock in clocks:
        await clock.measure()
        assert abs(clock() - time.time() * 1000) < 1_000
    await asyncio.to_thread(cluster.mend)
    await asyncio.to_thread(wait_until, cluster.is_whole)
    for client in clients:
        async with asyncio.timeout(30):
            while await RedisTime(client).now_us() is None:  # noqa: ASYNC110 - the client learns of it by asking
                await asyncio.sleep(0.05)
        await client.aclose()
