"""The steward's part in batches: it goes on with their work, and lets expired previews go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import batches
from gateway.ledger.moderation.batches import DueBatch
from gateway.ledger.moderation.selections import EVERYWHERE
from gateway.runtime.clock import Clock
from gateway.settlement.batch_steps import BatchSteps
from gateway.steward.failures import Failures
from gateway.steward.fair_turns import FairTurns

TAKEN: Final = 16
"""Batches of one turn, each of which has one step."""


class BatchKeeper:
    """Works on the batches that have work. Its methods raise LedgerUnavailable."""

    def __init__(
        self, ledger: Ledger, index: Index, catalogue: Catalogue, failures: Failures, *, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._steps = BatchSteps(ledger, index, catalogue, clock=clock)
        self._turns = FairTurns[DueBatch](
            "keep_batches", failures, clock=clock, in_slice=TAKEN, names=_names_of
        )

    async def step(self) -> int:
        """Make one step with each of the next batches, in turn, and return with how many."""
        return await self._turns.step(self._due_after, self._make_step)

    async def next_due(self) -> int | None:
        """Return when a batch next has work, None if none will."""
        return await self._ledger.read(batches.next_due())

    async def _due_after(self, last: DueBatch | None) -> Sequence[DueBatch]:
        return await self._ledger.read(batches.due_batches(last, now_ms=self._clock(), count=TAKEN))

    async def _make_step(self, due: Sequence[DueBatch]) -> None:
        for batch in due:
            await self._steps.step(batch.batch_id)


def _names_of(batch: DueBatch) -> tuple[str, str]:
    return batch.batch_id, batch.scopes[0] if len(batch.scopes) == 1 else EVERYWHERE
