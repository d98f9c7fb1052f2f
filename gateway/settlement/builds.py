"""Which builds of the game may play: what the policy says of each, under what the ledger's kill switch says."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from gateway.ledger.judgement.builds import BuildStatuses, build_statuses
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.runtime.telemetry import Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import LedgerUnavailable
from policies.loader import Board
from policies.replaying import BuildStatus

REFRESH_S: Final = 1.0
"""A change from elsewhere is heeded after at most this long, and the time that one read takes."""

_log = logger()


class BuildRegistry:
    """The status of every build, kept in memory: to look it up costs no query.

    Fails as it was: while the ledger cannot be read, what was last read of it holds.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._changed: BuildStatuses = {}
        self._read_at: float | None = None

    def status_of(self, board: Board, build: str) -> BuildStatus:
        """The status that holds for a build; `allow` for one that neither the ledger nor the policy speaks of."""
        changed = self._changed.get((board.name, build))
        if changed is not None:
            return changed
        declared = board.policy.builds.get(build)
        return declared.status if declared else BuildStatus.ALLOW

    async def refresh(self) -> None:
        """Reads what was changed. Raises LedgerUnavailable."""
        self._changed = await self._ledger.read(build_statuses(), ReadKind.REQUESTS)
        self._read_at = time.monotonic()

    async def refresh_if_old(self) -> None:
        """Reads what was changed, unless that was just done. Raises LedgerUnavailable if it was never read."""
        if self._read_at is not None and time.monotonic() - self._read_at < REFRESH_S:
            return
        try:
            await self.refresh()
        except LedgerUnavailable:
            if self._read_at is None:
                raise

    async def keep_fresh(self) -> None:
        """Reads what was changed again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except LedgerUnavailable as error:
                _log.warning(Event.LEDGER_DOWN, part="builds", error=str(error))
            except Exception as error:  # noqa: BLE001 - builds that are switched off must be heard of for ever
                report(FaultPlace.BUILDS, error)
