"""The number of players that a board ever had: a HyperLogLog in Redis, rebuilt from the ledger if lost.

The standard error is 1.04 / sqrt(16384) = 0.81 % (Redis' 2^14 registers; Flajolet et al., HyperLogLog, 2007).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

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


class EstimateMarks:
    """A mark for each lane, lost together with its boards' estimates. Methods raise IndexUnavailable."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def lost(self, lanes: Sequence[int]) -> list[int]:
        """Return those of these lanes that may have lost estimates, in one call."""
        values = await self._ask([("GET", keys.distinct_players_mark(lane)) for lane in lanes])
        return [lane for lane, value in zip(lanes, values, strict=True) if value != "1"]

    async def begin(self, lanes: Sequence[int]) -> None:
        """Note that the estimates of these lanes are counted again."""
        await self._ask([("SET", keys.distinct_players_mark(lane), "0") for lane in lanes])

    async def end(self, lanes: Sequence[int]) -> None:
        """Note that all of them are there, except in lanes that were lost since `begin`."""
        await self._ask([("SET", keys.distinct_players_mark(lane), "1", "XX") for lane in lanes])

    async def _ask(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        if not commands:
            return []
        with index_boundary():
            async with self._client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(await pipe.execute())
