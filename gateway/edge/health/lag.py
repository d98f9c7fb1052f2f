"""The lag of the index behind the ledger, from the edge's own pending changes and from the outbox."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions import work
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.runtime.clock import Clock
from gateway.runtime.refreshing import refresh_for_ever
from gateway.runtime.unexpected import FaultPlace
from gateway.settlement.unprojected import UnprojectedChanges

LOOK_S: Final = 1.0
"""Time between two reads of the outbox."""

ROWS_LIMIT: Final = 256
"""The maximum number of overdue changes to read, oldest first. With as many, every board may have one."""


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
        await refresh_for_ever(self.look, LOOK_S, part="lag", place=FaultPlace.LAG)

    def _staleness_ms(self, board: str) -> int:
        policy = self._catalogue.policy_of(board)
        return int(policy.staleness_s * 1000) if policy else 0
