"""Keeps the index equal to the ledger, a slice at a time, and reports each difference."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, NamedTuple

from gateway.index.board_index import BoardIndex
from gateway.index.gathered_commands import GatheredCommands
from gateway.index.inspection import Inspection
from gateway.index.residency import ResidencyState
from gateway.ledger.ledger import Ledger, LedgerReads
from gateway.runtime.clock import Clock
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import INDEX_DIFFERENCES, Event, label_of, logger
from gateway.steward.index.comparison import aspects_of
from gateway.steward.index.comparison.difference import Aspect, BoardView, Difference, Subjects, Walk, confirm
from gateway.steward.index.gathered_reads import GatheredReads
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import RebuildRefused
from policies.model import Policy

SLICE: Final = 500
"""Rows compared in one step: bounds the memory and how long a step keeps Redis and the ledger busy."""

WALKS_AT_ONCE: Final = 16
"""Walks of a board compared at once: its shards have some hundred, and each may read a slice."""

MOMENT_S: Final = 0.1
"""Time for a settlement to reach the index before its absence is a difference."""

_log = logger()


class Reconciler:
    """Compares one board's index with the ledger, slice after slice, and repairs it."""

    def __init__(
        self,
        ledger: Ledger,
        index: BoardIndex,
        policy: Policy,
        *,
        clock: Clock,
        reads: LedgerReads | None = None,
        commands: GatheredCommands | None = None,
    ) -> None:
        self._board = policy.board
        self._index = index
        self._commands = commands or GatheredCommands(index.client)
        inspection = Inspection(index.client, policy.board, self._commands)
        self._rebuilder = Rebuilder(ledger, index, policy, clock=clock)
        view = BoardView(reads or GatheredReads(ledger), index, inspection, policy, clock)
        self._shards = [part.inspection for part in view.parts() if part is not view]
        self._walks = [_EndlessWalk(aspect, walk) for aspect in aspects_of(view) for walk in aspect.walks()]

    @property
    def is_long(self) -> bool:
        """Whether a walk needs several steps, so that its place must not be lost."""
        return any(walk.is_long for walk in self._walks)

    async def residency(self) -> ResidencyState:
        """Return whether the board is whole, cold, or in use."""
        return await self._index.residency.state(self._commands)

    async def step(self, state: ResidencyState | None = None) -> int:
        """Repair a slice of each walk, or rebuild the board if Redis was emptied; return how much changed.

        `state` is the residency if it was just read.
        """
        state = state or await self.residency()
        if state.is_cold:
            return 0  # there is nothing to compare; `gateway.steward.index.cold` warms it
        # A server that has some of the board may have been emptied alone.
        if not state.is_whole or not all([await shard.is_whole() for shard in self._shards]):
            return await self._rebuild()
        await self._index.relay()
        differences, errors = await self._compare()
        if differences:
            report(self._board, differences)
        if errors:
            raise errors[0]
        return len(differences)

    async def _compare(self) -> tuple[list[Difference], list[Exception]]:
        """Repair a slice of each walk; return the differences, and the errors of the walks that failed.

        Many are compared at once, so that a small board takes few calls. Keys are repaired first: nobody can
        read the content of one of another type.
        """
        looks = await in_turns((_outcome_of(walk.look()) for walk in self._walks), at_once=WALKS_AT_ONCE)
        walks = zip(self._walks, looks, strict=True)
        suspects = [(walk, look.differences) for walk, look in walks if look.differences]
        if suspects:
            await asyncio.sleep(MOMENT_S)
        repairs = [await _outcome_of(walk.mend(differences)) for walk, differences in suspects]
        return (
            [difference for repair in repairs for difference in repair.differences],
            [outcome.error for outcome in (*looks, *repairs) if outcome.error],
        )

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


class _Outcome(NamedTuple):
    """What a walk found, or the error that kept it from that."""

    differences: Sequence[Difference] = ()
    error: Exception | None = None


async def _outcome_of(differences: Awaitable[Sequence[Difference]]) -> _Outcome:
    try:
        return _Outcome(await differences)
    except Exception as error:  # noqa: BLE001 - what one walk cannot read another one may repair
        return _Outcome(error=error)


class _EndlessWalk:
    """A walk of an aspect that begins again whenever it ends."""

    def __init__(self, aspect: Aspect, walk: Walk) -> None:
        self._aspect = aspect
        self._walk = walk
        self._slices: Subjects | None = None
        self.is_long = False

    async def look(self) -> Sequence[Difference]:
        """Return the differences of the next slice, of which some may be settlements on their way."""
        subjects = await self._next()
        return await self._aspect.compare(subjects) if subjects else []

    async def mend(self, suspects: Sequence[Difference]) -> Sequence[Difference]:
        """Repair what is still different, and return it."""
        differences = await confirm(self._aspect, suspects)
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
