"""Takes boards that nobody uses out of Redis, and rebuilds them there once somebody asks.

No change is lost, since each is in the ledger before the index hears of it. Redis does one thing at a time,
so a change arrives at one of three moments. Before the eviction: it goes with the windows. While the board is
cold: it stays in the ledger alone. After `swap_generation.lua`, which puts the rebuilt board in place and
removes the cold mark in one step: it is shown as always. The rebuild shows what the ledger got meanwhile
before it calls the board whole (`gateway.steward.index.rebuild`). Until then, the ledger answers readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.residency import ResidencyState
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.steward.index.rebuild import Rebuilder
from gateway.steward.rounds import Step
from policies.errors import RebuildRefused
from policies.model import WindowKind

SCAN: Final = 1_000
"""Redis keys examined at once."""

_log = logger()


class ColdBoards:
    """Evicts idle boards from Redis and warms those that are asked for."""

    def __init__(self, ledger: Ledger, boards: Mapping[str, BoardIndex], *, clock: Clock) -> None:
        self._boards = {name: _EvictableBoard(ledger, index, clock) for name, index in boards.items()}

    def steps(self) -> dict[str, Step]:
        """Return each board's step, which returns 1 if it evicted or warmed the board.

        Steps raise IndexUnavailable and LedgerUnavailable.
        """
        return {name: board.step for name, board in self._boards.items()}


class _EvictableBoard:
    """One board and whether it is known how long it has been idle."""

    def __init__(self, ledger: Ledger, index: BoardIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock
        self._residency = index.residency
        self._rebuilder = Rebuilder(ledger, index, index.ranking.policy, clock=clock)
        self._is_known = False

    async def step(self) -> int:
        state = await self._residency.state()
        if state.is_cold:
            return await self._warm() if self._is_wanted(state) else 0
        if not state.is_whole:
            self._is_known = False
            return 0  # the reconciler rebuilds it
        if not self._residency.is_limited:
            return 0
        if not state.is_used and self._is_known:
            return await self._evict()
        if not state.is_used:  # nobody knows since when, so its idle time begins now
            await self._residency.note_use(is_missed=True)
        self._is_known = True
        return 0

    def _is_wanted(self, state: ResidencyState) -> bool:
        """Return whether a cold board was used, may no longer go cold, or bears a mark that is not ours."""
        return state.is_used or state.is_whole or not self._residency.is_limited

    async def _warm(self) -> int:
        try:
            rebuilt = await self._rebuilder.rebuild()
        except RebuildRefused:
            return 0  # another steward is rebuilding it
        self._is_known = True
        _log.info(Event.WARMED, board=self._index.board, restored=rebuilt.entries)
        return 1

    async def _evict(self) -> int:
        """Remove the windows and all that follows from them; keep the board's other keys."""
        board = self._index.board
        stem = keys.stem(board)
        of_windows = tuple(f"{stem}{kind.value}" for kind in WindowKind)
        others = (f"{stem}segment:", f"{stem}circle:")
        evicted = [keys.names(board), keys.version(board)]
        async with aclosing(Inspection(self._index.client, board).scan(SCAN)) as slices:
            async for slice_of_keys in slices:
                names = (key.decode(errors="replace") for key in slice_of_keys)
                evicted += [name for name in names if name.startswith((*of_windows, *others))]
        if not await self._residency.evict(list(dict.fromkeys(evicted)), now_ms=self._clock()):
            return 0
        _log.info(Event.EVICTED, board=board)
        return 1
