"""Clients of the index's Redis: one for calls that must be quick, one for reads that block."""

from __future__ import annotations

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from policies.errors import SettingsError

BLOCK_MS = 5_000
"""Longest a blocking read waits for news."""


def connect(url: str, *, timeout_ms: int) -> Redis:
    """A client whose every call ends within `timeout_ms`, and which never sends anything twice."""
    return _client(url, timeout_s=timeout_ms / 1000, connections=16)


def connect_blocking(url: str) -> Redis:
    """A client for blocking reads of up to BLOCK_MS."""
    # Bytes that we never wrote must not end the one reader of the feed.
    return _client(url, timeout_s=2 * BLOCK_MS / 1000, connections=4, encoding_errors="replace")


def _client(url: str, *, timeout_s: float, connections: int, encoding_errors: str = "strict") -> Redis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout_s,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        encoding_errors=encoding_errors,
        protocol=2,
    )
    return Redis(connection_pool=pool)


async def refuse_evicting(client: Redis) -> None:
    """Raises SettingsError if that Redis may evict keys: a board with holes is worse than an error at start."""
    try:
        policy = (await client.config_get("maxmemory-policy")).get("maxmemory-policy", "noeviction")
    except RedisError:
        return  # hosted servers forbid CONFIG; an unreachable one is a matter of readiness, not of settings
    if policy != "noeviction":
        raise SettingsError(f"Redis evicts keys (maxmemory-policy {policy}); set it to noeviction")
