"""Measures promotions per second into four windows, beside a bare ZADD into each."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Final

from redis.asyncio import Redis

from bench.board.filling import WINDOWS, fill, ranking_of
from bench.board.http import promotion
from gateway.index.board_index import BoardIndex

CONCURRENT: Final = 64
"""Concurrent promotions."""


async def measure(client: Redis, entries: int, count: int, rounds: int) -> tuple[float, float]:
    """Return promotions per second of bare pipelines and of the index: medians of alternating rounds."""
    index = BoardIndex(client, ranking_of())
    await client.flushall()
    await fill(client, index.ranking, entries, WINDOWS)
    seq = itertools.count(entries + 1)

    async def promote() -> None:
        await index.project(promotion(index.ranking, next(seq), entries))

    async def bare() -> None:
        change = promotion(index.ranking, next(seq), entries)
        async with client.pipeline(transaction=False) as pipe:
            for standing in change.standings:
                pipe.zadd(f"bare:{standing.window}", {standing.member: standing.order})
            await pipe.execute()

    rates = [(await _rate(bare, count), await _rate(promote, count)) for _ in range(rounds)]
    return statistics.median(bare for bare, _ in rates), statistics.median(index for _, index in rates)


async def _rate(work: Callable[[], Awaitable[None]], count: int) -> float:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await work()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENT)))
    return count / (time.perf_counter() - began)
