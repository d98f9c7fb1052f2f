"""Measures an entry's memory in Valkey, by tie-break, windows, and groups of dense ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bench.board.filling import TIE_BREAKS, WINDOWS, fill, ranking_of


@dataclass(frozen=True)
class EntrySize:
    """Bytes of one player with everything: in the all-time window alone, and in four windows."""

    tie_break: str
    has_groups: bool
    alone: float
    in_four: float


async def measure(client: Redis, entries: int) -> list[EntrySize]:
    """Measure every kind of board, each in an empty Valkey."""
    return [
        EntrySize(
            tie_break,
            has_groups,
            await _bytes_per_player(client, tie_break, 1, entries, has_groups=has_groups),
            await _bytes_per_player(client, tie_break, len(WINDOWS), entries, has_groups=has_groups),
        )
        for tie_break in TIE_BREAKS
        for has_groups in (False, True)
    ]


async def _bytes_per_player(
    client: Redis, tie_break: str, windows: int, entries: int, *, has_groups: bool
) -> float:
    await client.flushall()
    await fill(client, ranking_of(tie_break, has_groups=has_groups), entries, WINDOWS[:windows])
    keys: Any = await client.keys()
    return sum([await _size(client, key) for key in keys]) / entries


async def _size(client: Redis, key: str) -> int:
    """Return the bytes of a key with everything in it."""
    # Counted key by key, since a server's buffers hide small differences; samples=0 counts every element.
    size: Any = await client.memory_usage(key, samples=0)
    return int(size)
