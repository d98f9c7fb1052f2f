"""Makes the index equal to the ledger for ever, a slice at a time, and reports what was not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import INDEX_DIFFERENCES, Event, logger
from gateway.steward.index.comparison import aspects_of
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, Subjects, Walk, confirm
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import RebuildRefused
from policies.model import Policy

SLICE: Final = 500
"""Rows compared in one step; bounds the memory, and for how long Redis and the ledger are asked."""

MOMENT_S: Final = 0.1
"""How long a settlement has to show on the index before its absence is a difference."""

_log = logger()


class Reconciler:
    """Compares one board's index with the ledger, slice after slice, and repairs it."""

    def __init__(self, ledger: Ledger, index: BoardIndex, policy: Policy, *, clock: Clock) -> None:
        self._board = policy.board
        self._index = index
        self._inspection = Inspection(index.client, policy.board)
        self._rebuilder = Rebuilder(ledger, index, policy, clock=clock)
        view = BoardView(ledger, index, self._inspection, policy, clock)
        self._parts = [part.inspection for part in view.parts()]
        self._rounds = [_Round(aspect, walk) for aspect in aspects_of(view) for walk in aspect.walks()]

    async def step(self) -> int:
        """How much was repaired in one slice of everything, or put in place if Redis was emptied."""
        if (await self._index.residency.state()).is_cold:
            return 0  # nothing of it is here to be compared; `steward.cold` sees to it
        if not await self._is_whole():
            return await self._rebuild()
        await self._index.relay()
        found = [each for turn in self._rounds for each in await turn.step()]
        for each in found:
            self._report(each)
        if found:
            _log.warning(Event.REPAIRED, board=self._board, repaired=len(found))
        return len(found)

    async def _is_whole(self) -> bool:
        """False once a server that has some of the board was emptied."""
        return all([await each.is_whole() for each in (self._inspection, *self._parts)])

    async def _rebuild(self) -> int:
        try:
            rebuilt = await self._rebuilder.rebuild()
        except RebuildRefused:
            return 0  # somebody is at it
        _log.info(Event.REBUILT, board=self._board, restored=rebuilt.entries)
        return rebuilt.entries

    def _report(self, found: Difference) -> None:
        INDEX_DIFFERENCES.labels(self._board, found.kind.value).inc()
        _log.warning(
            Event.DIFFERENCE,
            board=self._board,
            kind=found.kind.value,
            window=found.window,
            player=found.player,
            submission=found.submission,
            key=found.key,
        )


class _Round:
    """One way through one side, begun again whenever it ends."""

    def __init__(self, aspect: Aspect, walk: Walk) -> None:
        self._aspect = aspect
        self._walk = walk
        self._slices: Subjects | None = None

    async def step(self) -> Sequence[Difference]:
        """The differences that one slice had, repaired."""
        found = await self._aspect.compare(await self._next())
        if not found:
            return []
        await asyncio.sleep(MOMENT_S)
        found = await confirm(self._aspect, found)
        await self._aspect.repair(found)
        return found

    async def _next(self) -> Sequence[Any]:
        if self._slices is None:
            self._slices = self._walk(SLICE)
        slices, self._slices = self._slices, None  # if it raises, the next step begins the walk again
        try:
            subjects = await anext(slices)
        except StopAsyncIteration:
            return []
        self._slices = slices
        return subjects
