"""Batching of changes that are in the ledger, for boards whose policy allows a stale index."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gateway.ledger.submissions import work
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.rollups import by_board
from gateway.settlement.settle import LedgerWrites, Projection
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.loader import Board

GATHERED_LIMIT: Final = 10_000
"""Maximum number of waiting changes, each under a kilobyte. Reaching it flushes them at once."""


class Coalescers:
    """The coalescers of the boards that have changes waiting."""

    def __init__(self, ledger: LedgerWrites, index: Projection) -> None:
        self._ledger = ledger
        self._index = index
        self._waiting: dict[str, Coalescer] = {}

    async def show(self, board: Board, changes: Sequence[Change]) -> None:
        """Add changes to the next flush of a board, and return at once."""
        if not changes:
            return
        coalescer = self._waiting.get(board.name)
        if coalescer is None:
            coalescer = Coalescer(self._ledger, self._index, board, on_flushed=self._forget)
            self._waiting[board.name] = coalescer
        await coalescer.show(changes)

    async def drained(self) -> None:
        """Flush all boards now, and return once nothing is waiting."""
        while self._waiting:
            await next(iter(self._waiting.values())).drained()

    def _forget(self, board: Board) -> None:
        del self._waiting[board.name]


class Coalescer:
    """Gathers durable changes of a board for its `staleness_s`, then projects the newest of each player.

    Fails open: the steward projects from the outbox whatever failed or was lost with the process.
    """

    def __init__(
        self,
        ledger: LedgerWrites,
        index: Projection,
        board: Board,
        *,
        on_flushed: Callable[[Board], None] = lambda _: None,
    ) -> None:
        """Create a coalescer that calls `on_flushed` whenever nothing is waiting any more."""
        self._ledger = ledger
        self._index = index
        self._board = board
        self._on_flushed = on_flushed
        self._gathered: list[Change] = []
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def show(self, changes: Sequence[Change]) -> None:
        """Add changes to the next flush, and return at once."""
        self._gathered += changes
        if len(self._gathered) >= GATHERED_LIMIT:
            self._is_due.set()
        if self._gathered and self._task is None:
            self._task = asyncio.create_task(self._flush_later(), name="coalescer")

    async def drained(self) -> None:
        """Flush now, and return once nothing is waiting."""
        while self._task is not None:
            self._is_due.set()
            await asyncio.wait([self._task])

    async def _flush_later(self) -> None:
        try:
            while self._gathered:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._board.policy.staleness_s):
                        await self._is_due.wait()
                self._is_due.clear()
                changes, self._gathered = self._gathered, []
                await self._show(changes)
        finally:
            self._task = None
            self._on_flushed(self._board)

    async def _show(self, changes: Sequence[Change]) -> None:
        try:
            for board, some in by_board(self._board, changes):
                await self._index.project(board, newest(some))
            await self._ledger.write(work.strike_projected([change.seq for change in changes]))
        except (IndexUnavailable, LedgerUnavailable):
            pass
        except Exception as error:  # noqa: BLE001 - the next changes must still be projected
            report(FaultPlace.COALESCER, error)


def newest(changes: Iterable[Change]) -> list[Change]:
    """Return one change per player, with the newest standing of each window and the newest baselines.

    This is only for submissions that were never pending: the index must see each change of the others.
    """
    last: dict[str, Change] = {}
    standings: dict[str, dict[str, Standing]] = defaultdict(dict)
    baselines: dict[str, tuple[str, StoredBaseline]] = {}
    for change in sorted(changes, key=lambda change: change.seq):
        last[change.player] = change
        standings[change.player] |= {standing.window: standing for standing in change.standings}
        baselines |= {baseline.player: (change.player, baseline) for baseline in change.baselines}
    # A baseline may be of a build or the board; it goes with the player whose change brought it last.
    baselines_of: dict[str, list[StoredBaseline]] = defaultdict(list)
    for player, baseline in baselines.values():
        baselines_of[player].append(baseline)
    return [
        replace(change, standings=tuple(standings[player].values()), baselines=tuple(baselines_of[player]))
        for player, change in last.items()
    ]
