"""What an entry takes in Valkey, by tie-break, with and without windows and the groups of dense ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bench.board.filling import TIE_BREAKS, WINDOWS, fill, ranking_of


@dataclass(frozen=True)
class Size:
    """Bytes for one player with everything: of the all-time window alone, and of four windows."""

    tie_break: str
    has_groups: bool
    alone: float
    in_four: float


async def measure(client: Redis, entries: int) -> list[Size]:
    """Every kind of board, each in an empty Valkey."""
    return [
        Size(
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
    found: Any = await client.keys()
    return sum([await _size(client, key) for key in found]) / entries


async def _size(client: Redis, key: str) -> int:
    """Bytes of a key with all that it holds, each counted: small differences drown in the buffers of a whole server."""
    found: Any = await client.memory_usage(key, samples=0)
    return int(found)
