"""The steward's rounds: each duty in a loop of its own, none of which a failure ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from gateway.boards.index import Index
from gateway.boards.inspection import Inspection
from gateway.clock import Clock
from gateway.ledger import queries
from gateway.ledger.records import OutboxRow
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings import Settings
from gateway.settlement import project
from gateway.records import Change, Standing
from gateway.steward.dispatch import JobQueue
from gateway.steward.reconcile import Reconciler
from gateway.telemetry import Event, logger
from policies.errors import ScoregateError
from policies.loader import Board
from policies.vocabulary import State

POLL_S: Final = 0.05
"""How often the outbox is asked for due work: the latency that a verdict pays for not being lost."""

SLICE: Final = 256

_log = logger()


class Steward:
    """Dispatches, projects what a crash left unprojected, and reconciles."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: SqliteLedger,
        index: Index,
        jobs: JobQueue,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._index = index
        self._jobs = jobs
        self._clock = clock
        self._reconcilers = [
            Reconciler(
                ledger,
                index.boards[board.name],
                Inspection(index.client, board.name, board.policy.order),
                board.policy,
                clock,
            )
            for board in boards.values()
        ]

    async def run(self) -> None:
        """Does its rounds until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._for_ever(self.dispatch, POLL_S))
            group.create_task(self._for_ever(self.project, POLL_S * 10))
            group.create_task(self._for_ever(self.reconcile, self._settings.reconcile_s))

    async def dispatch(self) -> int:
        """How many waiting submissions were handed to the queue; each comes back until it is settled."""
        room = await self._jobs.room()
        if not room:
            return 0
        batch = self._settings.verify_batch
        rows = await self._ledger.read(queries.due("verify", now_ms=self._clock(), count=min(SLICE, room * batch)))
        if not rows or not await self._jobs.put(rows, batch):
            return 0
        until_ms = self._clock() + int(self._settings.redispatch_s * 1000)
        await self._ledger.write(queries.postpone(rows, until_ms=until_ms))
        return len(rows)

    async def project(self) -> int:
        """How many settled changes were shown that their own settlement did not live to show."""
        rows = await self._ledger.read(queries.due("project", now_ms=self._clock(), count=SLICE))
        known = [row for row in rows if row.board in self._index.boards]
        if not known:
            return 0
        changes = [await self._change_of(row) for row in known]
        return len(changes) if await project(self._ledger, self._index, changes) else 0

    async def reconcile(self) -> int:
        """How much of the index was repaired in one slice of every board."""
        return sum([await reconciler.step() for reconciler in self._reconcilers])

    async def _change_of(self, row: OutboxRow) -> Change:
        found = await self._ledger.read(queries.submission(row.submission_id))
        stands: Sequence[Standing] = await self._ledger.read(queries.slots(row.board, [row.player]))
        learnt = await self._ledger.read(queries.baselines_of(row.board, row.player))
        state = found.state if found else State.REJECTED
        live = tuple(each for each in stands if each.expires_at_ms > self._clock())
        return Change(row.seq, row.submission_id, row.board, row.player, state, live, tuple(learnt))

    async def _for_ever(self, duty: Callable[[], Awaitable[int]], pause_s: float) -> None:
        while True:
            try:
                done = await duty()
            except ScoregateError as error:
                _log.warning(Event.DUTY_FAILED, duty=duty.__name__, error=str(error))  # type: ignore[attr-defined]
                done = 0
            await asyncio.sleep(0 if done else pause_s)
