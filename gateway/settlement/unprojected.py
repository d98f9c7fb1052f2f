"""What one process wrote into the ledger and could not show: it is shown as soon as Redis is back, and readers are told.

The outbox has all of it as well, so what does not fit, or ends with the process, is shown by the steward, some seconds later.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Final

from gateway.index.board_index import Index
from gateway.ledger.submissions import work
from gateway.records import Change
from gateway.runtime.concurrency import in_turns
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.settle import PROJECT_AFTER_MS, LedgerWrites
from policies.errors import IndexUnavailable, LedgerUnavailable

RETRY_S: Final = 0.05
"""Pause between two attempts while Redis is away."""

UNPROJECTED_LIMIT: Final = 4_096
"""Changes that one process keeps; a change is about two kilobytes. More are the steward's."""

_AT_ONCE: Final = 4
"""Boards that are tried at once: the others' calls need connections too."""

_SLICE: Final = 16
"""Changes of a board that are shown at once, after one of them was."""


class UnprojectedChanges:
    """The changes that this process has still to show."""

    def __init__(
        self, ledger: LedgerWrites, index: Index, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._changes: dict[str, OrderedDict[int, Change]] = {}
        self._since_s: dict[str, float] = {}
        self._count = 0
        self._dropped_s: dict[str, float] = {}
        self._has_some = asyncio.Event()
        self._has_none = asyncio.Event()
        self._has_none.set()

    def add(self, changes: Sequence[Change]) -> None:
        """Keeps changes to be shown again, as far as there is room."""
        now_s = self._clock()
        for change in changes:
            owed = self._changes.setdefault(change.board, OrderedDict())
            self._since_s.setdefault(change.board, now_s)
            if change.seq in owed:
                continue
            if self._count >= UNPROJECTED_LIMIT:
                self._dropped_s[change.board] = now_s
                continue
            owed[change.seq] = change
            self._count += 1
        if self._count:
            self._has_some.set()
            self._has_none.clear()

    def behind_s(self, board: str) -> float:
        """How long a change of the board has been waiting to be shown (s); 0 if none that we know of does.

        What was dropped counts until it is due in the outbox, where everybody can see it.
        """
        if board in self._since_s:
            return self._clock() - self._since_s[board]
        if board not in self._dropped_s:
            return 0.0
        behind_s = self._clock() - self._dropped_s[board]
        staleness_s = self._index.boards[board].ranking.policy.staleness_s
        if behind_s <= 2 * PROJECT_AFTER_MS / 1000 + staleness_s:
            return behind_s
        del self._dropped_s[board]
        return 0.0

    async def run(self) -> None:
        """Shows what is owed, until it is cancelled."""
        task = asyncio.current_task()
        while not (task and task.cancelling()):  # redis-py swallows a cancellation while it connects
            await self._has_some.wait()
            try:
                await in_turns([self._pay(board) for board in list(self._changes)], at_once=_AT_ONCE)
            except Exception as error:  # noqa: BLE001 - what is owed next must be shown too
                report(FaultPlace.OWED, error)
            if self._count:
                await asyncio.sleep(RETRY_S)
            else:
                self._has_some.clear()
                self._has_none.set()

    async def paid(self) -> None:
        """Returns once nothing is owed."""
        await self._has_none.wait()

    async def _pay(self, board: str) -> None:
        """Shows one change of a board, the longest waiting first, and if that succeeds the others."""
        count = 1
        while owed := self._changes.get(board):
            tried = list(islice(owed.values(), count))
            shown = await in_turns([self._show(change) for change in tried], at_once=_SLICE)
            await self._strike(board, [each for each, is_shown in zip(tried, shown, strict=True) if is_shown])
            if not all(shown):
                return
            count = _SLICE
        self._changes.pop(board, None)
        self._since_s.pop(board, None)

    async def _show(self, change: Change) -> bool:
        try:
            await self._index.boards[change.board].project(change)
        except IndexUnavailable:
            # It goes to the end, so that one that nothing can show keeps none of the others waiting.
            self._changes[change.board].move_to_end(change.seq)
            return False
        return True

    async def _strike(self, board: str, changes: Sequence[Change]) -> None:
        for change in changes:
            del self._changes[board][change.seq]
            self._count -= 1
        if changes:
            with suppress(LedgerUnavailable):
                await self._ledger.write(work.strike_projected([change.seq for change in changes]))


@asynccontextmanager
async def keep_projecting(ledger: LedgerWrites, index: Index) -> AsyncIterator[UnprojectedChanges]:
    """Has what this process fails to show be owed and shown, until the block ends; what is left is the steward's."""
    owed = UnprojectedChanges(ledger, index)
    index.owe = owed.add
    paying = asyncio.create_task(owed.run(), name="owed")
    try:
        yield owed
    finally:
        index.owe = None
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
