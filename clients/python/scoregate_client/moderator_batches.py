"""Batches: one decision on many submissions, previewed, applied and reversed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, TypedDict

from .batch_models import Batch, BatchItem, ReadBatch
from .connection import segment
from .moderator_requests import ModeratorRequests, Time, decision, sent

GOING_ON: Final = frozenset({"selecting", "applying", "reversing"})
"""The states of a batch that a steward goes on with."""


class Selection(TypedDict, total=False):
    """Submissions for which everything given holds; of each time the first is included, the last is not."""

    board: str
    family: str
    player: str
    key: str
    build: str
    received_since: Time
    received_until: Time
    achieved_since: Time
    achieved_until: Time
    reason: str
    finding: str


class BatchModeration(ModeratorRequests):
    """Decisions on many submissions at once."""

    async def preview_batch(
        self,
        operation: str,
        action: str,
        code: str,
        selection: Selection,
        *,
        note: str = "",
        message: str | None = None,
    ) -> Batch:
        """Select submissions for one decision (`approve`, `reject`, `revoke`, `reinstate`) without making it.

        A large selection takes a while: `await_batch` waits for its preview. `operation` is your own id.
        """
        document = {
            **decision(code, note, message),
            "operation": operation,
            "action": action,
            "selection": {name: sent(value) for name, value in selection.items()},
        }
        return Batch.from_json(await self._write("POST", "/batches", document))

    async def apply_batch(self, previewed: Batch) -> Batch:
        """Decide on exactly what was previewed. A large batch takes a while: `await_batch` waits for it."""
        path = f"{_batch_path(previewed.batch)}/apply"
        return Batch.from_json(await self._write("POST", path, etag=previewed.etag))

    async def reverse_batch(self, batch: str) -> Batch:
        """Take back what a batch decided and nobody has decided on since."""
        return Batch.from_json(await self._write("POST", f"{_batch_path(batch)}/reverse"))

    async def abandon_batch(self, batch: str) -> Batch:
        """Let a batch go that was not applied."""
        return Batch.from_json(await self._write("POST", f"{_batch_path(batch)}/abandon"))

    async def batch(self, batch: str) -> Batch:
        """Return a batch as it is now."""
        return ReadBatch.from_json(await self._read(_batch_path(batch), {"limit": 1})).batch

    async def await_batch(self, batch: Batch, *, pause_s: float = 0.5) -> Batch:
        """Return a batch once the gateway has nothing more to do for it."""
        while batch.state in GOING_ON:
            await self._runner.sleep(pause_s)
            batch = await self.batch(batch.batch)
        return batch

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the batches of your boards, newest first."""
        return self._all(Batch, "/batches", "batches", {})

    def batch_items(self, batch: str) -> AsyncGenerator[BatchItem, None]:
        """Yield the submissions of a batch, by board and in the order in which they were received."""
        return self._all(BatchItem, _batch_path(batch), "items", {})


def _batch_path(batch: str) -> str:
    return f"/batches/{segment(batch)}"
