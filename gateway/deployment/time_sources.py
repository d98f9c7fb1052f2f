"""The clocks that every process of a deployment can read: the database's and Redis'."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from redis.asyncio import RedisCluster
from sqlalchemy import BigInteger, cast, func, select

from gateway.deployment.reference_clock import ReferenceClock, Source
from gateway.index.cluster import Client, node_of
from gateway.index.scripts import index_boundary
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Query, Transaction
from gateway.runtime.settings import Settings
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.loader import Board, Family

TIMEOUT_S: Final = 1.0

_NOW = Query(select(cast(func.extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)))
"""`clock_timestamp()`, because `now()` is the beginning of the transaction."""

_TIMEKEEPER: Final = "lb:clock"
"""Not a key: on a cluster, all processes read the clock of the node with this slot."""


class DatabaseTime:
    """The clock of PostgreSQL."""

    name = "database"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def now_us(self) -> int | None:
        """Return its time (Unix microseconds), None if it does not answer. Fails open."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._ledger.read(_database_time)
        except (LedgerUnavailable, TimeoutError):
            return None


class RedisTime:
    """The clock of the index's Redis, or of one node of its cluster."""

    name = "redis"

    def __init__(self, client: Client) -> None:
        self._client = client

    async def now_us(self) -> int | None:
        """Return its time (Unix microseconds), None if it does not answer. Fails open."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._time()
        except (IndexUnavailable, TimeoutError):
            return None

    async def _time(self) -> int:
        with index_boundary():
            if isinstance(self._client, RedisCluster):
                node = await node_of(self._client, _TIMEKEEPER)
                answer: Any = await self._client.execute_command("TIME", target_nodes=node)
            else:
                answer = await self._client.time()
            seconds, microseconds = answer
            return int(seconds) * 1_000_000 + int(microseconds)


async def _database_time(tx: Transaction) -> int:
    [[now_us]] = await tx.rows(_NOW)
    return int(now_us)


def sources_of(settings: Settings, ledger: Ledger, client: Client) -> Sequence[Source]:
    """Return the clocks of a deployment, the deciding one first. SQLite has no clock of its own."""
    in_redis = RedisTime(client)
    return [DatabaseTime(ledger), in_redis] if settings.is_on_postgres else [in_redis]


async def shared_clock(
    settings: Settings, ledger: Ledger, client: Client, boards: Iterable[Board | Family] = ()
) -> ReferenceClock:
    """Return the clock of a deployment, after one attempt to measure it."""
    longest_s = max((board.policy.run_lifetime_s for board in boards), default=0)
    sources = sources_of(settings, ledger, client)
    clock = ReferenceClock(sources, memory_s=longest_s + 60) if longest_s else ReferenceClock(sources)
    await clock.measure()
    return clock
