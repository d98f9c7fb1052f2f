"""The lag of the index behind the ledger, from the edge's own pending changes and from the outbox."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.runtime.background import rest
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.unprojected import UnprojectedChanges
from policies.errors import LedgerUnavailable

LOOK_S: Final = 1.0
"""Time between two reads of the outbox."""

ROWS_LIMIT: Final = 256
"""The maximum number of overdue changes to read, oldest first. With as many, every board may have one."""

_log = logger()


class Lag:
    """The time that changes of each board have been waiting to reach the index.

    The changes that this process owes are known at once. Those of others are in the outbox, and count once
    their settlement is late (`PROJECT_AFTER_MS`). Reads use the last known state and wait for nothing.
    """

    def __init__(
        self,
        ledger: Ledger,
        unprojected: UnprojectedChanges,
        catalogue: Catalogue,
        *,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._unprojected = unprojected
        self._catalogue = catalogue
        self._clock = clock
        self._overdue_ms: dict[str, int] = {}
        self._all_since_ms: int | None = None

    def behind_s(self, board: str) -> float:
        """Return how long the oldest known change of the board has been waiting (s), 0 without one."""
        since_ms = self._overdue_ms.get(board, self._all_since_ms)
        overdue_s = 0.0 if since_ms is None else max(0.001, (self._clock() - since_ms) / 1000)
        return max(self._unprojected.behind_s(board), overdue_s)

    async def look(self) -> None:
        """Read the overdue changes in the outbox. Raises LedgerUnavailable."""
        query = work.due("project", now_ms=self._clock(), count=ROWS_LIMIT)
        rows = await self._ledger.read(query, ReadKind.DUTIES)
        overdue_ms: dict[str, int] = {}
        for row in rows:
            overdue_ms.setdefault(row.board, row.due_at_ms - PROJECT_AFTER_MS - self._staleness_ms(row.board))
        self._overdue_ms = overdue_ms
        self._all_since_ms = max(overdue_ms.values()) if len(rows) >= ROWS_LIMIT else None

    async def keep_fresh(self) -> None:
        """Look again and again, until it is cancelled."""
        while True:
            await rest(LOOK_S)
            try:
                await self.look()
            except LedgerUnavailable as error:
                _log.warning(Event.LEDGER_DOWN, part="lag", error=str(error))
            except Exception as error:  # noqa: BLE001 - readers need the lag as long as the edge runs
                report(FaultPlace.LAG, error)

    def _staleness_ms(self, board: str) -> int:
        policy = self._catalogue.policy_of(board)
        return int(policy.staleness_s * 1000) if policy else 0
