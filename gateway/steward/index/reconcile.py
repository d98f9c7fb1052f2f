"""Keeps the index equal to the ledger, a slice at a time, and reports each difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from gateway.index.board_index import BoardIndex
from gateway.index.inspection import Inspection
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import INDEX_DIFFERENCES, Event, label_of, logger
from gateway.steward.index.comparison import aspects_of
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, Subjects, Walk, confirm
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import RebuildRefused
from policies.model import Policy

SLICE: Final = 500
"""Rows compared in one step: bounds the memory and how long a step keeps Redis and the ledger busy."""

MOMENT_S: Final = 0.1
"""Time for a settlement to reach the index before its absence is a difference."""

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
        self._walks = [_EndlessWalk(aspect, walk) for aspect in aspects_of(view) for walk in aspect.walks()]

    @property
    def is_long(self) -> bool:
        """Whether a walk needs several steps, so that its place must not be lost."""
        return any(walk.is_long for walk in self._walks)

    async def step(self) -> int:
        """Repair a slice of each walk, or rebuild the board if Redis was emptied; return how much changed."""
        if (await self._index.residency.state()).is_cold:
            return 0  # there is nothing to compare; `gateway.steward.index.cold` warms it
        if not await self._is_whole():
            return await self._rebuild()
        await self._index.relay()
        differences = [difference for walk in self._walks for difference in await walk.step()]
        if differences:
            report(self._board, differences)
        return len(differences)

    async def _is_whole(self) -> bool:
        """Return False once a server that has some of the board was emptied."""
        return all([await part.is_whole() for part in (self._inspection, *self._parts)])

    async def _rebuild(self) -> int:
        try:
            rebuilt = await self._rebuilder.rebuild()
        except RebuildRefused:
            return 0  # another steward is rebuilding it
        _log.info(Event.REBUILT, board=self._board, restored=rebuilt.entries)
        return rebuilt.entries


def report(board: str, differences: Sequence[Difference]) -> None:
    """Count and log differences that were found on a board and repaired."""
    for difference in differences:
        INDEX_DIFFERENCES.labels(label_of(board), difference.kind.value).inc()
        _log.warning(
            Event.DIFFERENCE,
            board=board,
            kind=difference.kind.value,
            window=difference.window,
            player=difference.player,
            submission=difference.submission,
            key=difference.key,
        )
    _log.warning(Event.REPAIRED, board=board, repaired=len(differences))


class _EndlessWalk:
    """A walk of an aspect that begins again whenever it ends."""

    def __init__(self, aspect: Aspect, walk: Walk) -> None:
        self._aspect = aspect
        self._walk = walk
        self._slices: Subjects | None = None
        self.is_long = False

    async def step(self) -> Sequence[Difference]:
        """Repair one slice and return its differences."""
        differences = await self._aspect.compare(await self._next())
        if not differences:
            return []
        await asyncio.sleep(MOMENT_S)
        differences = await confirm(self._aspect, differences)
        await self._aspect.repair(differences)
        return differences

    async def _next(self) -> Sequence[Any]:
        if self._slices is None:
            self._slices = self._walk(SLICE)
        slices, self._slices = self._slices, None  # after an error, the next step begins the walk again
        try:
            subjects = await anext(slices)
        except StopAsyncIteration:
            return []
        self._slices = slices
        self.is_long |= len(subjects) >= SLICE
        return subjects
