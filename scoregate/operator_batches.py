"""Works on batches of decisions as an operator: preview, apply, reverse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import batch_items, batches
from gateway.ledger.moderation.batch_items import FIRST, BatchItem
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.runtime.clock import Clock
from gateway.settlement.batch_steps import BatchSteps
from gateway.settlement.batches import OPERATOR, abandon, apply, reverse
from gateway.settlement.settle import Projection
from policies.errors import SettingsError

PAGE = 1_000
"""Items of one read."""

_BEGUN = frozenset({BatchState.APPLYING, BatchState.APPLIED})


@dataclass(frozen=True, slots=True)
class BatchOperator:
    """An operator's hands. What a command that dies leaves of a batch, a steward finishes."""

    ledger: Ledger
    index: Projection
    catalogue: Catalogue
    clock: Clock

    async def follow(self, batch_id: str) -> Batch:
        """Make all steps that are due, and return the batch. Raises SettingsError if there is none."""
        parts = (self.ledger, self.index, self.catalogue)
        steps = BatchSteps(*parts, clock=self.clock, waits_for_boards=False)
        while await steps.step(batch_id):
            pass
        return await self._load(batch_id)

    async def apply(self, batch_id: str) -> Batch:
        """Apply a preview, or go on with it, and return the batch. Raises StateConflict."""
        batch = await self.follow(batch_id)
        if batch.state not in _BEGUN:
            now_ms = self.clock()
            await self.ledger.write(apply(batch_id, version=batch.version, by=OPERATOR, now_ms=now_ms))
        return await self.follow(batch_id)

    async def reverse(self, batch_id: str) -> Batch:
        """Reverse what a batch did, which goes no further, and return the batch. Raises StateConflict."""
        await self._load(batch_id)
        await self.ledger.write(reverse(batch_id, by=OPERATOR, now_ms=self.clock()))
        return await self.follow(batch_id)

    async def abandon(self, batch_id: str) -> None:
        """Let a preview go. Raises StateConflict."""
        await self.ledger.write(abandon(batch_id, now_ms=self.clock()))

    async def _load(self, batch_id: str) -> Batch:
        batch = await self.ledger.read(batches.batch(batch_id))
        if batch is None:
            raise SettingsError(f"there is no batch {batch_id}, or not any more; `batch list` shows them")
        return batch

    async def items(self, batch_id: str) -> AsyncIterator[BatchItem]:
        """Yield the items of a batch, by board and in the order in which they were received."""
        place = FIRST
        while page := await self.ledger.read(batch_items.items_of(batch_id, place, count=PAGE)):
            for item in page:
                yield item
            place = page[-1].place


def lines_of(batch: Batch) -> Iterator[str]:
    """Yield what a preview says of a batch, or what became of it, for people."""
    boards = int(batch.preview.get("board_count", 0))
    yield f"batch {batch.batch_id} {batch.state.value}: {batch.items} submissions on {boards} boards"
    for board in batch.preview.get("boards", ()):
        yield f"board\t{board['board']}\t{board['items']}"
    for podium in batch.preview.get("podiums", ()):
        yield f"podium\t{podium['board']}\t{podium['window']}"
    for outcome, count in sorted(batch.outcomes.items()):
        yield f"{outcome}\t{count}"
    for reason, count in sorted(batch.leaves.items()):
        yield f"left out, {reason}\t{count}"
    if batch.state is BatchState.PREVIEWED:
        yield f"nothing is decided yet; to decide exactly this: scoregate batch apply {batch.batch_id}"
    elif batch.state is BatchState.APPLIED:
        yield f"to take it all back: scoregate batch reverse {batch.batch_id}"
