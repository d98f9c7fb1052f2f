"""Exact score distributions: how many entries beat a score, and which score is at a share of all.

Each answer is one lookup by rank or by score in a ZSET, in O(log N).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from gateway.index.board_index import BoardIndex
from gateway.index.scripts import ReadingScript
from gateway.runtime.concurrency import in_turns
from gateway.shared_records import ScoreDistribution, position_at
from policies.errors import IndexUnavailable

SHARES_AT_ONCE: Final = 4
"""Shares looked up concurrently: each is a bisection over all shards."""

ATTEMPTS: Final = 3
"""Most reads of a board in shards, which is read again if entries left meanwhile."""


class ExactDistributions:
    """The exact score distributions of one board's windows. Raises IndexNotWhole and IndexUnavailable."""

    def __init__(self, index: BoardIndex) -> None:
        client = index.client
        self._index = index
        self._script = ReadingScript(client, "read_distribution")

    async def of(self, window: str, scores: Sequence[int], shares: Sequence[int]) -> ScoreDistribution:
        """Return the distribution of a window. Shards and their shares are read at different moments."""
        parts = self._index.shards
        if parts == (self._index,):
            return await self._part(self._index, window, scores, shares)
        for _ in range(ATTEMPTS):
            distributions = await asyncio.gather(*(self._part(shard, window, scores, ()) for shard in parts))
            total = sum(part.total for part in distributions)
            at = await self._at(window, total, shares) if total else []
            if len(at) == len(shares) or not total:
                return self._joined(window, distributions, total, at)
        raise IndexUnavailable("the board shrinks faster than it can be read")

    async def _part(
        self, index: BoardIndex, window: str, scores: Sequence[int], shares: Sequence[int]
    ) -> ScoreDistribution:
        ranking = self._index.ranking
        bounds = [f"({ranking.order_from(window, score)}" for score in scores]
        arguments = [len(bounds), *bounds, *shares]
        answer: Any = await self._script(index.sentinel, [index.window_key(window)], arguments)
        total, better, at, *ends = answer
        scored = [ranking.score_at(window, int(order)) for order in (*at, *ends)]
        best, worst = scored[len(at) :] or (None, None)
        return ScoreDistribution(total, tuple(better), tuple(scored[: len(at)]), best, worst)

    async def _at(self, window: str, total: int, shares: Sequence[int]) -> list[int]:
        """Return the board's scores at these shares, by position; fewer if entries left meanwhile."""
        reads = (self._index.page(window, position_at(total, share), 1) for share in shares)
        pages = await in_turns(reads, at_once=SHARES_AT_ONCE)
        return [entry.score for page in pages for entry in page.entries]

    def _joined(
        self, window: str, parts: Sequence[ScoreDistribution], total: int, at: Sequence[int]
    ) -> ScoreDistribution:
        def merit(score: int) -> int:
            return self._index.ranking.order_from(window, score)

        better = tuple(map(sum, zip(*(part.better for part in parts), strict=True)))
        bests = [part.best for part in parts if part.best is not None]
        worsts = [part.worst for part in parts if part.worst is not None]
        best, worst = min(bests, key=merit, default=None), max(worsts, key=merit, default=None)
        return ScoreDistribution(total, better, tuple(at), best, worst)
