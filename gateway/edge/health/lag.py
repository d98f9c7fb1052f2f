"""How far the index is behind the ledger, as an edge knows it: what it owes itself, and what is overdue in the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import work
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.settle import PROJECT_AFTER_MS
from gateway.settlement.unprojected import UnprojectedChanges
from policies.errors import LedgerUnavailable
from policies.loader import Board

LOOK_S: Final = 1.0
"""How often the outbox is looked at."""

LOOKED_AT: Final = 256
"""Overdue changes that are looked at, the oldest; with as many, every board may have one."""

_log = logger()


class Lag:
    """How long changes of each board have been waiting to be shown.

    Of what this process owes it is known at once. What another one owes is in the outbox, and shows there once its
    settlement should long have shown it (`PROJECT_AFTER_MS`): no read asks anybody.
    """

    def __init__(
        self,
        ledger: Ledger,
        owed: UnprojectedChanges,
        boards: Callable[[], Mapping[str, Board]],
        *,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._owed = owed
        self._boards = boards
        self._clock = clock
        self._overdue_ms: dict[str, int] = {}
        self._all_since_ms: int | None = None

    def behind_s(self, board: str) -> float:
        """How long a change of the board has been waiting (s); 0 if none does, as far as we know."""
        since_ms = self._overdue_ms.get(board, self._all_since_ms)
        overdue_s = 0.0 if since_ms is None else max(0.001, (self._clock() - since_ms) / 1000)
        return max(self._owed.behind_s(board), overdue_s)

    async def look(self) -> None:
        """Looks for overdue changes in the outbox. Raises LedgerUnavailable."""
        due = work.due("project", now_ms=self._clock(), count=LOOKED_AT)
        rows = await self._ledger.read(due, ReadKind.DUTIES)
        overdue_ms: dict[str, int] = {}
        for row in rows:
            overdue_ms.setdefault(row.board, row.due_at_ms - PROJECT_AFTER_MS - self._staleness_ms(row.board))
        self._overdue_ms = overdue_ms
        self._all_since_ms = max(overdue_ms.values()) if len(rows) >= LOOKED_AT else None

    async def keep_fresh(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except LedgerUnavailable as error:
                _log.warning(Event.LEDGER_DOWN, part="lag", error=str(error))
            except Exception as error:  # noqa: BLE001 - readers must be told for ever
                report(FaultPlace.LAG, error)

    def _staleness_ms(self, board: str) -> int:
        found = self._boards().get(board)
        return int(found.policy.staleness_s * 1000) if found else 0
