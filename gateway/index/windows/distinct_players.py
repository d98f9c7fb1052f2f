"""The number of players that a board ever had: a HyperLogLog in Redis, rebuilt from the ledger if lost.

The standard error is 1.04 / sqrt(16384) = 0.81 % (Redis' 2^14 registers; Flajolet et al., HyperLogLog, 2007).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script, index_boundary

STANDARD_ERROR: Final = 0.0081
"""Standard error of the estimate, as a fraction of it."""

BUILT_KEPT_MS: Final = 600_000
"""Life of an unfinished count after its last page, should its process die."""


class DistinctPlayers:
    """The estimate of one board. Every method raises IndexUnavailable if Redis does not answer."""

    def __init__(self, client: Redis, board: str) -> None:
        self._client = client
        self._board = board
        self._key = keys.distinct_players(board)
        self._add = Script(client, "add_players")

    async def add(self, players: Sequence[str]) -> bool:
        """Add players to the estimate. Return whether there is one."""
        return bool(await self._add([self._key], players))

    async def count(self) -> int | None:
        """Return the estimate, None while there is none."""
        with index_boundary():
            if not await self._client.exists(self._key):
                return None
            return int(await self._client.pfcount(self._key))

    def recount(self) -> Recount:
        """Return a count from the beginning, beside the one that is read."""
        return Recount(self._client, self._board, self._key)


class Recount:
    """A count from the beginning. It is merged with what is there, so that two counts at once lose nobody."""

    def __init__(self, client: Redis, board: str, live: str) -> None:
        self._client = client
        self._live = live
        self._built = keys.distinct_players_built(board, secrets.token_hex(8))

    async def add(self, players: Sequence[str]) -> None:
        """Count players."""
        with index_boundary():
            await self._client.pfadd(self._built, *players)
            await self._client.pexpire(self._built, BUILT_KEPT_MS)

    async def put(self) -> None:
        """Merge it into the estimate that is read."""
        with index_boundary():
            await self._client.pfmerge(self._live, self._built)
            await self._client.unlink(self._built)
