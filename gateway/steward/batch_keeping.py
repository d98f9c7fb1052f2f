"""The steward's part in batches: it goes on with their work, and lets expired previews go."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_index import Index
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import batches
from gateway.runtime.clock import Clock
from gateway.settlement.batch_steps import BatchSteps

TAKEN: Final = 16
"""Batches of one turn, each of which has one step."""


class BatchKeeper:
    """Works on the batches that have work. Its methods raise LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: Index, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._steps = BatchSteps(ledger, index, catalogue, clock=clock)

    async def step(self) -> int:
        """Make one step with each of some batches that have waited longest, and return with how many."""
        due = await self._ledger.read(batches.due_batches(now_ms=self._clock(), count=TAKEN))
        for batch_id in due:
            await self._steps.step(batch_id)
        return len(due)

    async def next_due(self) -> int | None:
        """Return when a batch next has work, None if none will."""
        return await self._ledger.read(batches.next_due())
