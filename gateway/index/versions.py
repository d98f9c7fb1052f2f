"""The current version of a board's pages, read from Redis once for all readers of a moment."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.moves import Moves
from gateway.index.ranges import window_key
from gateway.index.scripts import Script
from policies.ranking import Ranking


class Version(NamedTuple):
    """A version of a window: pages read under equal versions are equal. `total` counts its entries."""

    name: str
    total: int


class Versions:
    """The versions of one board's windows, and the `moves` between the latest of them."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self._ranking = ranking
        self._version = Script(client, "read_version")
        self.moves = Moves()
        self._batcher: Batcher[str, Version] = Batcher(self._ask)

    def of(self, window: str) -> asyncio.Future[Version]:
        """Return a window's version as of after this call, never before. Raises IndexUnavailable."""
        return self._batcher.ask(window)

    async def _ask(self, windows: Sequence[str]) -> Sequence[Version]:
        distinct = list(dict.fromkeys(windows))
        board = self._ranking.policy.board
        board_keys = [keys.version(board), keys.moves(board)]
        window_keys = [window_key(self._ranking, window) for window in distinct]
        name, steps, *totals = await self._version(
            [*board_keys, *window_keys], [secrets.token_hex(8), self.moves.newest]
        )
        self.moves.note(name, steps)
        versions = {window: Version(name, total) for window, total in zip(distinct, totals, strict=True)}
        return [versions[window] for window in windows]
