"""Clients of the index's Redis, one server or a cluster: one for quick calls, one for blocking reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

from gateway.index import keys
from gateway.index.cluster import Client, Cluster, one_per_server, server_targets
from gateway.index.packing import PACKED
from gateway.index.scripts import index_boundary
from gateway.runtime.settings import CLUSTER_URL
from policies.errors import IndexUnavailable, SettingsError

DRIVER: Final = DriverInfo(lib_version=version("redis"))
"""What `CLIENT LIST` tells of a connection. redis-py would look its version up on the disk for each."""

DRIVER.add_upstream_driver("scoregate", version("scoregate"))

BLOCK_MS = 5_000
"""Longest time that a blocking read waits for changes."""

_PER_SERVER: Final = 16
_PER_CLUSTER: Final = 64
_FEED: Final = 4
"""Calls of the live feed at once: one that waits for changes, and others that read what listeners missed."""

_POLL_TIMEOUT_S: Final = 2.0
"""Longest call of the feed on a cluster, where none waits: another node takes over from a silent one."""


def connect(url: str, *, timeout_ms: int) -> Redis:
    """Return a client whose calls all end within `timeout_ms` and are never sent twice."""
    connections = _PER_CLUSTER if CLUSTER_URL.fullmatch(url) else _PER_SERVER
    return _client(url, timeout_s=timeout_ms / 1000, connections=connections)


def connect_blocking(url: str) -> Redis:
    """Return a client of the live feed, for blocking reads of up to BLOCK_MS; on a cluster nothing blocks."""
    timeout_s = _POLL_TIMEOUT_S if CLUSTER_URL.fullmatch(url) else 2 * BLOCK_MS / 1000
    # Forged bytes must not end the only reader of the feed.
    return _client(url, timeout_s=timeout_s, connections=_FEED, encoding_errors="replace")


def _client(url: str, *, timeout_s: float, connections: int, encoding_errors: str = "strict") -> Redis:
    options: dict[str, Any] = {
        "decode_responses": True,
        "driver_info": DRIVER,
        "encoding_errors": encoding_errors,
        "protocol": 2,
    }
    if match := CLUSTER_URL.fullmatch(url):
        seeds, common = _cluster_of(match)
        cluster = Cluster(seeds, timeout_s=timeout_s, connections=connections, **common | options)
        return cast(
            "Redis", cluster
        )  # the methods that the index calls are the same; `cluster.py` has the others
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        **options,
    )
    pool.connection_class = PACKED[pool.connection_class]
    return Redis.from_pool(pool)  # the client owns the pool and closes it


def _cluster_of(match: re.Match[str]) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """Return the nodes that a URL names, and the options that their connections share."""
    scheme, who, options = match["scheme"], match["who"] or "", match["options"] or ""
    nodes: list[dict[str, Any]] = [
        dict(parse_url(f"{scheme}://{who}{seed}{options}")) for seed in match["seeds"].split(",")
    ]
    seeds = [(node.pop("host"), node.pop("port", 6379)) for node in nodes]
    common = nodes[0]
    if common.pop("connection_class", None) is SSLConnection:
        common["ssl"] = True
    return seeds, common


async def refuse_evicting(client: Client) -> None:
    """Raise SettingsError if a server may evict keys: a board with gaps is worse than an error at startup."""
    try:
        with index_boundary():
            policies = [
                (await client.config_get("maxmemory-policy", **where)).get("maxmemory-policy", "noeviction")
                for where in await server_targets(client)
            ]
    except IndexUnavailable:
        return  # hosted servers forbid CONFIG; for an unreachable server readiness is the place to fail
    for policy in policies:
        if policy != "noeviction":
            raise SettingsError(f"Redis evicts keys (maxmemory-policy {policy}); set it to noeviction")


async def probe(client: Client, lanes: Iterable[int], *, kept_ms: int) -> None:
    """Write once to every server that has one of these lanes. Raises IndexUnavailable.

    A server that answers but refuses writes (full, a replica, unable to save) cannot be an index.
    """
    with index_boundary():
        names = await one_per_server(client, [keys.probe(lane) for lane in lanes])
        await asyncio.gather(*(client.set(name, "1", px=kept_ms) for name in names))
