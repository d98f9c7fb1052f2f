"""Changes that this process committed and could not project. It retries, and tells readers meanwhile.

The outbox has all of them too. The steward projects, some seconds later, those that do not fit or end with
the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Final, NamedTuple

from gateway.index.board_indexes import Index
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.runtime.background import end_if_cancelled, rest
from gateway.runtime.concurrency import in_turns
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.settle import LedgerWrites
from gateway.shared_records import Change
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.loader import Board

RETRY_S: Final = 0.05
"""Pause between two attempts while Redis is down."""

UNPROJECTED_LIMIT: Final = 4_096
"""Changes that one process keeps, of about two kilobytes each. More are left to the steward."""

_AT_ONCE: Final = 4
"""Boards that are tried at once. Requests need connections too."""

_SLICE: Final = 16
"""Changes of a board that are projected at once, after one succeeded."""


class _Unprojected(NamedTuple):
    """The changes of a board by their sequence numbers, and when the first of them came (s)."""

    board: Board
    changes: OrderedDict[int, Change]
    since_s: float


class _Dropped(NamedTuple):
    since_s: float
    until_s: float


class UnprojectedChanges:
    """The changes that this process has still to project."""

    def __init__(
        self, ledger: LedgerWrites, index: Index, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._clock = clock
        self._boards: dict[str, _Unprojected] = {}
        self._count = 0
        self._dropped: dict[str, _Dropped] = {}
        self._has_some = asyncio.Event()
        self._has_none = asyncio.Event()
        self._has_none.set()

    def add(self, board: Board, changes: Sequence[Change]) -> None:
        """Keep changes of a board for another attempt, as far as there is room."""
        waiting = self._boards.setdefault(board.name, _Unprojected(board, OrderedDict(), self._clock()))
        for change in changes:
            if change.seq in waiting.changes:
                continue
            if self._count >= UNPROJECTED_LIMIT:
                self._note_dropped(board)
                continue
            waiting.changes[change.seq] = change
            self._count += 1
        if not waiting.changes:
            del self._boards[board.name]
        if self._count:
            self._has_some.set()
            self._has_none.clear()

    def behind_s(self, board: str) -> float:
        """Return how long the oldest change of a board has been waiting (s); 0 if this process knows of none.

        A dropped change counts until it is due in the outbox, where every process sees it.
        """
        if board in self._boards:
            return self._clock() - self._boards[board].since_s
        dropped, now_s = self._dropped.get(board), self._clock()
        if dropped is None:
            return 0.0
        if now_s <= dropped.until_s:
            return now_s - dropped.since_s
        del self._dropped[board]
        return 0.0

    def _note_dropped(self, board: Board) -> None:
        now_s = self._clock()
        self._dropped.pop(board.name, None)
        if len(self._dropped) >= UNPROJECTED_LIMIT:
            del self._dropped[next(iter(self._dropped))]
        until_s = now_s + 2 * PROJECT_AFTER_MS / 1000 + board.policy.staleness_s
        self._dropped[board.name] = _Dropped(now_s, until_s)

    async def run(self) -> None:
        """Project the changes until cancelled."""
        while True:
            end_if_cancelled()
            await self._has_some.wait()
            try:
                await in_turns([self._project_board(board) for board in list(self._boards)], at_once=_AT_ONCE)
            except Exception as error:  # noqa: BLE001 - the next changes must still be projected
                report(FaultPlace.OWED, error)
            if self._count:
                await rest(RETRY_S)
            else:
                self._has_some.clear()
                self._has_none.set()

    async def wait_until_projected(self) -> None:
        """Return once no change is waiting."""
        await self._has_none.wait()

    async def _project_board(self, board: str) -> None:
        """Project the longest waiting change of a board, and if that succeeds the others."""
        count = 1
        while (waiting := self._boards.get(board)) and waiting.changes:
            changes = list(islice(waiting.changes.values(), count))
            successes = await in_turns([self._show(waiting, change) for change in changes], at_once=_SLICE)
            await self._strike(
                waiting, [change for change, is_shown in zip(changes, successes, strict=True) if is_shown]
            )
            if not all(successes):
                return
            count = _SLICE
        self._boards.pop(board, None)

    async def _show(self, waiting: _Unprojected, change: Change) -> bool:
        try:
            await self._index.of(waiting.board).project(change)
        except IndexUnavailable:
            # It moves to the end, so that a change that always fails does not block the others.
            waiting.changes.move_to_end(change.seq)
            return False
        return True

    async def _strike(self, waiting: _Unprojected, changes: Sequence[Change]) -> None:
        for change in changes:
            del waiting.changes[change.seq]
            self._count -= 1
        if changes:
            with suppress(LedgerUnavailable):
                await self._ledger.write(work.strike_projected([change.seq for change in changes]))


@asynccontextmanager
async def keep_projecting(ledger: LedgerWrites, index: Index) -> AsyncIterator[UnprojectedChanges]:
    """Retry the failed projections of this process until the block ends. The rest is left to the steward."""
    unprojected = UnprojectedChanges(ledger, index)
    index.on_unprojected = unprojected.add
    task = asyncio.create_task(unprojected.run(), name="owed")
    try:
        yield unprojected
    finally:
        index.on_unprojected = None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
