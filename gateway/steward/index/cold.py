"""Takes a board that nobody uses out of Redis, and builds one there that is wanted.

No change is lost, since each is in the ledger before the index hears of it. Redis does one thing at a time,
so a change arrives at one of three moments. Before the eviction: it goes with the windows. While the board is
cold: it stays in the ledger alone. After `swap_generation.lua`, which puts the rebuilt board in place and
removes the cold mark in one step: it is shown as always. The rebuild shows what the ledger got meanwhile
before it calls the board whole (`gateway.steward.index.rebuild`). Until then, the ledger answers readers.

A board of a family has no cold mark: once evicted, it is as if it had never been used. A change that arrives
then makes a part of a window, which nobody reads, and has the board built.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.ranges import zsets_of
from gateway.ledger import index_pages
from gateway.ledger.ledger import Ledger
from gateway.ledger.whole_boards import has_content
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import RebuildRefused
from policies.model import Policy
from policies.readable_windows import readable_window_names

GROUPED: Final = 1_000
"""Players whose groups are looked up at once."""

_log = logger()


class ColdBoard:
    """One board that is taken out of Redis or built there.

    Every method raises IndexUnavailable and LedgerUnavailable.
    """

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._index = index
        self._policy = policy
        self._clock = clock

    async def warm(self) -> bool:
        """Build the board unless it is whole, and return whether it was built."""
        state = await self._index.residency.state()
        if state.is_whole and not state.is_cold and await self._has_whole_shards():
            return False
        rebuilder = Rebuilder(self._ledger, self._index, self._policy, clock=self._clock)
        try:
            rebuilt = await rebuilder.rebuild()
        except RebuildRefused:
            return False  # another steward is rebuilding it
        _log.info(Event.WARMED, board=self._index.board, restored=rebuilt.entries)
        return True

    async def _has_whole_shards(self) -> bool:
        shards = [part for part in self._index.shards if part is not self._index]
        return all([await Inspection(part.client, part.board).is_whole() for part in shards])

    async def has_content(self) -> bool:
        """Return whether the ledger or Redis has anything of the board. If not, the ledger answers for it."""
        board, now_ms = self._index.board, self._clock()
        if await self._ledger.read(has_content(board, now_ms=now_ms)):
            return True
        # A rejected run leaves a key that only an eviction takes away.
        left = [keys.settled(board), keys.baselines(board), keys.memberships(board)]
        return bool(await Inspection(self._index.client, board).facts(left))

    async def evict(self) -> bool:
        """Remove the windows and all that follows from them, and return whether nobody used the board.

        Of a board of a family nothing is left.
        """
        board = self._index.board
        evicted = await self._keys_of_windows() + [keys.names(board), keys.version(board), keys.moves(board)]
        if self._index.residency.is_forgotten:
            evicted += [keys.pending(board), keys.settled(board), keys.baselines(board)]
            evicted += [keys.memberships(board), keys.cold(board)]
        if not await self._index.residency.evict(list(dict.fromkeys(evicted)), now_ms=self._clock()):
            return False
        _log.info(Event.EVICTED, board=board)
        return True

    async def _keys_of_windows(self) -> list[str]:
        board, now_ms = self._index.board, self._clock()
        windows = {*readable_window_names(self._policy, now_ms)}
        windows |= {*await self._ledger.read(index_pages.live_windows(board, now_ms=now_ms))}
        names: list[str] = []
        inspection = Inspection(self._index.client, board)
        for window in sorted(windows):
            names += [zset for key in self._keys_of(window) for zset in zsets_of(key)]
            names += [keys.sketch(board, window), keys.segmented(board, window)]
            if self._policy.segments:
                async with aclosing(inspection.keys_of_groups(window, GROUPED)) as slices:
                    names += [name async for slice_of_names in slices for name in slice_of_names]
        return names

    def _keys_of(self, window: str) -> tuple[str, str, str]:
        board = self._index.board
        return self._index.window_key(window), keys.members(board, window), keys.groups(board, window)
