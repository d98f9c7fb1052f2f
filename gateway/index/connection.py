"""Clients of the index's Redis, one server or a cluster: for calls that must be quick, and for reads that block."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.index import keys
from gateway.index.cluster import Client, Cluster, one_per_server, server_targets
from gateway.index.scripts import index_boundary
from gateway.runtime.settings import CLUSTER_URL
from policies.errors import IndexUnavailable, SettingsError

BLOCK_MS = 5_000
"""Longest a blocking read waits for news."""

_PER_SERVER: Final = 16
_PER_CLUSTER: Final = 64
_BLOCKING: Final = 4
_BLOCKING_PER_CLUSTER: Final = 1024
"""A blocking read holds its connection, and on a cluster each board has one of its own."""


def connect(url: str, *, timeout_ms: int) -> Redis:
    """A client whose every call ends within `timeout_ms`, and which never sends anything twice."""
    connections = _PER_CLUSTER if CLUSTER_URL.fullmatch(url) else _PER_SERVER
    return _client(url, timeout_s=timeout_ms / 1000, connections=connections)


def connect_blocking(url: str) -> Redis:
    """A client for blocking reads of up to BLOCK_MS."""
    connections = _BLOCKING_PER_CLUSTER if CLUSTER_URL.fullmatch(url) else _BLOCKING
    # Bytes that we never wrote must not end the one reader of the feed.
    return _client(url, timeout_s=2 * BLOCK_MS / 1000, connections=connections, encoding_errors="replace")


def _client(url: str, *, timeout_s: float, connections: int, encoding_errors: str = "strict") -> Redis:
    options: dict[str, Any] = {"decode_responses": True, "encoding_errors": encoding_errors, "protocol": 2}
    if found := CLUSTER_URL.fullmatch(url):
        seeds, told = _cluster_of(found)
        cluster = Cluster(seeds, timeout_s=timeout_s, connections=connections, **told | options)
        return cast("Redis", cluster)  # what the index calls of it is the same; `cluster.py` has what is not
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        **options,
    )
    return Redis.from_pool(pool)  # its own: it ends with the client


def _cluster_of(found: re.Match[str]) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    """The nodes that a URL names, and what its connections have in common."""
    scheme, who, options = found["scheme"], found["who"] or "", found["options"] or ""
    told: list[dict[str, Any]] = [
        dict(parse_url(f"{scheme}://{who}{seed}{options}")) for seed in found["seeds"].split(",")
    ]
    seeds = [(each.pop("host"), each.pop("port", 6379)) for each in told]
    common = told[0]
    if common.pop("connection_class", None) is SSLConnection:
        common["ssl"] = True
    return seeds, common


async def refuse_evicting(client: Client) -> None:
    """Raises SettingsError if a server of that Redis may evict keys: a board with holes is worse than an error at start."""
    try:
        with index_boundary():
            found = [
                (await client.config_get("maxmemory-policy", **where)).get("maxmemory-policy", "noeviction")
                for where in await server_targets(client)
            ]
    except IndexUnavailable:
        return  # hosted servers forbid CONFIG; an unreachable one is a matter of readiness, not of settings
    for policy in found:
        if policy != "noeviction":
            raise SettingsError(f"Redis evicts keys (maxmemory-policy {policy}); set it to noeviction")


async def probe(client: Client, boards: Iterable[str], *, kept_ms: int) -> None:
    """Writes to every server that has one of these boards. Raises IndexUnavailable.

    A server that answers and takes no writes (full, a replica, unable to save) is no index: that is why it is a write.
    """
    with index_boundary():
        for key in await one_per_server(client, [keys.probe(board) for board in boards]):
            await client.set(key, "1", px=kept_ms)
