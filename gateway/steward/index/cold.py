"""Takes boards that nobody uses out of Redis, and puts them there again when somebody does.

Why no change is lost: a change is in the ledger before the index hears of it. Redis does one thing at a time, so it
hears before the windows are taken away, and they go with it; or while the board is cold, and then it is left to the
ledger; or after `swap_generation.lua` has put a rebuilt board in place and taken the mark of the cold away in the same
step. What the ledger got while that was built is shown before the board is said to be whole
(`gateway.steward.index.rebuild`). Until it is, readers are answered from the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from gateway.index import keys
from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.index.residency import State
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.steward.index.rebuild import Rebuilder
from gateway.steward.rounds import Step
from policies.errors import RebuildRefused
from policies.model import WindowKind

SCAN: Final = 1_000
"""Keys of Redis looked through at once."""

_log = logger()


class ColdBoards:
    """Sees to the stay of every board in Redis."""

    def __init__(self, ledger: Ledger, boards: Mapping[str, BoardIndex], *, clock: Clock) -> None:
        self._boards = {name: _EvictableBoard(ledger, index, clock) for name, index in boards.items()}

    def steps(self) -> dict[str, Step]:
        """What sees to each board: 1 if it was taken out of Redis or put there again. Raises IndexUnavailable and LedgerUnavailable."""
        return {name: board.step for name, board in self._boards.items()}


class _EvictableBoard:
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
            return 0  # it is rebuilt by who reconciles it
        if not self._residency.is_limited:
            return 0
        if not state.is_used and self._is_known:
            return await self._evict()
        if not state.is_used:  # for how long nobody knows: from now on
            await self._residency.note_use(is_missed=True)
        self._is_known = True
        return 0

    def _is_wanted(self, state: State) -> bool:
        """True if somebody used it, if it may not go cold any more, and if the mark of the cold is not ours."""
        return state.is_used or state.is_whole or not self._residency.is_limited

    async def _warm(self) -> int:
        try:
            rebuilt = await self._rebuilder.rebuild()
        except RebuildRefused:
            return 0  # somebody is at it
        self._is_known = True
        _log.info(Event.WARMED, board=self._index.board, restored=rebuilt.entries)
        return 1

    async def _evict(self) -> int:
        """Takes the windows away with all that follows from them; what is not of windows stays."""
        board = self._index.board
        stem = keys.stem(board)
        of_windows = tuple(f"{stem}{kind.value}" for kind in WindowKind)
        others = (f"{stem}segment:", f"{stem}circle:")
        found = [keys.names(board), keys.version(board)]
        async with aclosing(Inspection(self._index.client, board).scan(SCAN)) as slices:
            async for slice_of_keys in slices:
                named = (key.decode(errors="replace") for key in slice_of_keys)
                found += [name for name in named if name.startswith((*of_windows, *others))]
        if not await self._residency.evict(list(dict.fromkeys(found)), now_ms=self._clock()):
            return 0
        _log.info(Event.EVICTED, board=board)
        return 1
