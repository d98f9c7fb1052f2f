"""Which version of a board's pages is current: asked of Redis once for all readers of a moment."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.ranges import window_key
from gateway.index.scripts import Script
from policies.ranking import Ranking


class Version(NamedTuple):
    """Pages of a window that were read under equal versions are equal; `total` is how many entries it has."""

    name: str
    total: int


class Versions:
    """The versions of one board's windows."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self._ranking = ranking
        self._version = Script(client, "read_version")
        self._batcher: Batcher[str, Version] = Batcher(self._ask)

    def of(self, window: str) -> asyncio.Future[Version]:
        """A window's version as it is after this call, never as it was before. Raises IndexUnavailable."""
        return self._batcher.ask(window)

    async def _ask(self, windows: Sequence[str]) -> Sequence[Version]:
        asked = list(dict.fromkeys(windows))
        board = self._ranking.policy.board
        held = [keys.version(board), *(window_key(self._ranking, each) for each in asked)]
        name, *totals = await self._version(held, [secrets.token_hex(8)])
        found = {window: Version(name, total) for window, total in zip(asked, totals, strict=True)}
        return [found[each] for each in windows]
