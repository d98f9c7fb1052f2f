"""The duty that hands due submissions to workers, the most harmful first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.judgement import audits, promotion_impact, sampling
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.runtime.clock import Clock
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import (
    AUDITS_AT_ONCE,
    JobQueue,
    VerificationQueue,
    jobs_of,
    shared_out,
    size_of_jobs,
)
from gateway.steward.due_work import SLICE, DueWork
from gateway.steward.looks import LOOK_MS, Looks
from validators.verification_priority import URGENT


class Dispatcher:
    """Hands out work to workers. What they do not settle comes due again."""

    def __init__(
        self, settings: Settings, catalogue: Catalogue, ledger: Ledger, jobs: JobQueue, *, clock: Clock
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._ledger = ledger
        self._jobs = jobs
        self._clock = clock
        self._looks = Looks(ledger.version, longest_ms=LOOK_MS, clock=clock, next_due=self._next_due)
        self._due_at_ms: int | None = None
        self._due = DueWork(ledger, catalogue, clock=clock)

    async def dispatch(self) -> int:
        """Queue waiting submissions and return how many; each comes due again until it is settled."""
        if not await self._looks.at(self._is_due):
            return 0
        await self._assess()
        rooms = await self._jobs.rooms()
        if not any(rooms.values()):
            return 0
        due = await self._due_to_verify()
        size = size_of_jobs(len(due), rooms, most=self._settings.verify_batch)
        jobs = jobs_of(due, size, has_urgent_queue=rooms[VerificationQueue.URGENT] > 0)
        by_queue: dict[VerificationQueue, list[list[OutboxRow]]] = defaultdict(list)
        for queue, job in shared_out(jobs, rooms):
            by_queue[queue].append(job)
        return sum([await self._hand_out(queue, batches) for queue, batches in by_queue.items()])

    async def _is_due(self) -> bool:
        """Return whether anything is due that workers do: one read for all kinds of it."""
        self._due_at_ms = await self._ledger.read(work.next_due_for_workers)
        return self._due_at_ms is not None and self._due_at_ms <= self._clock()

    async def _next_due(self) -> int | None:
        return self._due_at_ms

    async def _hand_out(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> int:
        reach(Point.BEFORE_DISPATCH)
        if not await self._jobs.put(queue, jobs):
            return 0
        reach(Point.AFTER_DISPATCH)
        rows = [row for job in jobs for row in job]
        until_ms = self._clock() + int(self._settings.redispatch_s * 1000)
        await self._ledger.write(work.hand_out(rows, until_ms=until_ms))
        return len(rows)

    async def _assess(self) -> None:
        """Store how much harm each new submission could do. Later submissions do not change it."""
        rows = await self._ledger.read(work.due_to_assess(now_ms=self._clock(), count=SLICE))
        if rows:
            boards = await self._catalogue.boards({row.board for row in rows})
            rankings = {name: board.ranking for name, board in boards.items()}
            tops = {name: board.policy.verification.top for name, board in boards.items()}
            harms = await self._ledger.read(promotion_impact.harms_of(rows, rankings, tops))
            await self._ledger.write(work.prioritise(harms))

    async def _due_to_verify(self) -> list[OutboxRow]:
        rows = await self._ledger.read(work.due_to_verify(now_ms=self._clock(), count=SLICE))
        again = await self._due.of_kind(sampling.KIND, harm=URGENT)
        return [*await self._due.with_policies("verify", rows), *again, *await self._due_to_audit()]

    async def _due_to_audit(self) -> list[OutboxRow]:
        """Return as many due audits as may be handed out now."""
        due = await self._due.of_kind(audits.KIND)
        if not due:
            return []
        handed_out = await self._ledger.read(audits.handed_out(now_ms=self._clock()))
        return due[: max(0, AUDITS_AT_ONCE - handed_out)]
