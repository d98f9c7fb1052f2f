"""Removes the keys that an earlier version left in Redis, after an upgrade, and says when none is left.

Nothing waits for it. The boards have no keys of this version at first, so the ledger answers reads, and the
boards are built as after a loss of Redis. One steward scans each server in slices, pass after pass, until a
pass over all of them meets no earlier key: an edge of before that still runs keeps writing some. A steward
that is killed leaves fewer earlier keys, and the next one begins a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode

from gateway.index.cluster import primaries
from gateway.index.earlier_layout import EarlierLayout
from gateway.index.scripts import index_boundary
from gateway.index.shards import shard_policy
from gateway.runtime.telemetry import EARLIER_KEYS, Event, logger
from policies.errors import IndexUnavailable
from policies.loader import Board

SCANNED: Final = 1_000
"""Keys of a server that a step examines: well under a millisecond of Redis' one thread."""

_log = logger()


class LayoutUpgrade:
    """The removal of earlier keys, a slice at a time."""

    def __init__(self, client: Redis, boards: Callable[[], Iterable[Board]]) -> None:
        self._client = client
        self._earlier = EarlierLayout(client)
        self._boards = boards
        self._servers: list[ClusterNode | None] = []
        self._at = self._cursor = self._met = self._removed = 0

    async def step(self) -> int:
        """Do one slice and return how many keys were removed, at least 1 until the end is reached.

        Afterwards each step asks for the marker alone. Raises IndexUnavailable.
        """
        try:
            if not self._servers and not await self._begin():
                return 0
            return await self._remove()
        except IndexUnavailable:
            self._servers = []  # the nodes may be others now
            raise

    async def _begin(self) -> bool:
        """Begin a pass, and return False if none is needed."""
        if (await self._earlier.state()).is_current:
            return False
        self._servers = await self._primaries()
        self._at = self._cursor = self._met = 0
        await self._earlier.hide(part for board in self._boards() for part in _parts_of(board))
        return True

    async def _remove(self) -> int:
        self._cursor, removed = await self._earlier.remove_slice(
            self._servers[self._at], self._cursor, count=SCANNED
        )
        self._note(removed)
        if not self._cursor:
            self._at += 1
        if self._at == len(self._servers):
            await self._end()
        return max(1, removed)

    def _note(self, removed: int) -> None:
        if removed and not self._removed:
            _log.info(Event.UPGRADE_BEGUN)
        self._met += removed
        self._removed += removed
        EARLIER_KEYS.inc(removed)

    async def _end(self) -> None:
        """End the pass, and with it the upgrade if the pass met no earlier key."""
        # A key may have moved behind a pass together with its slot, and a replica may have taken over.
        if not self._met and await self._primaries() == self._servers:
            await self._earlier.mark_current()
            if removed := (await self._earlier.state()).removed:  # by whichever stewards
                _log.info(Event.UPGRADE_ENDED, removed=removed)
            self._removed = 0
        self._servers = []

    async def _primaries(self) -> list[ClusterNode | None]:
        with index_boundary():
            return await primaries(self._client)


def _parts_of(board: Board) -> list[str]:
    """Return the names under which a board has sentinels: its own, and those of its shards."""
    policy = board.policy
    shards = range(policy.shards if policy.shards > 1 else 0)
    return [board.name, *(shard_policy(policy, number).board for number in shards)]
