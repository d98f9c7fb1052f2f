"""The duty that notes which queues are late by their boards' targets, and tells webhooks once."""

from __future__ import annotations

from typing import Final

from gateway.derived.webhooks.event_types import queue_late
from gateway.ledger.derived import webhooks
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.late_queues import next_deadline, note_late
from gateway.ledger.transaction import Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger

SLICE: Final = 64
"""Deadlines of one step."""

_log = logger()


class TargetKeeper:
    """Notes what is late: that and the deliveries are one transaction, so a restart tells nothing twice."""

    def __init__(self, ledger: Ledger, *, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def step(self) -> int:
        """Note deadlines that have passed, SLICE at most; return how many. Raises LedgerUnavailable."""
        due_at_ms, now_ms = await self.next_due(), self._clock()
        if due_at_ms is None or due_at_ms > now_ms:
            return 0

        async def work(tx: Transaction) -> tuple[int, list[str]]:
            count, began = await note_late(tx, now_ms=now_ms, count=SLICE)
            await webhooks.queue(tx, (queue_late(case, now_ms=now_ms) for case in began), now_ms=now_ms)
            return count, [case.board for case in began]

        count, boards = await self._ledger.write(work)
        for board in boards:
            _log.warning(Event.QUEUE_LATE, board=board)
        return count

    async def next_due(self) -> int | None:
        """Return when the next deadline passes, None if none is ahead."""
        return await self._ledger.read(next_deadline)
