"""The due work in the outbox, of boards whose policies are in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.steward.ledger_duties import ABSENT_MS

SLICE: Final = 256
"""Rows of one look."""

_log = logger()


class DueWork:
    """Due work of any kind. Work of boards without a policy is put off, so that it fills no slice."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock

    async def of_kind(self, kind: str, *, harm: int = 0) -> list[OutboxRow]:
        """Return a slice of the due work of a kind."""
        due = work.due(kind, now_ms=self._clock(), count=SLICE, harms=(harm,))
        return await self.with_policies(kind, await self._ledger.read(due))

    async def with_policies(self, kind: str, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        """Return the rows of boards with a policy, and put off the others."""
        foreign = [row for row in rows if row.board not in self._catalogue]
        if foreign:
            _log.warning(
                Event.DUTY_FAILED, duty=kind, error="no policy", boards=sorted({row.board for row in foreign})
            )
            await self._ledger.write(work.postpone(foreign, until_ms=self._clock() + ABSENT_MS))
        return [row for row in rows if row.board in self._catalogue]
