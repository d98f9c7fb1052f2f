"""The builds of a game that may play: the policy's statuses, overridden by the kill switch in the ledger."""

from __future__ import annotations

import time
from typing import Final

from gateway.ledger.judgement.builds import BuildStatuses, build_statuses
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.runtime.refreshing import refresh_for_ever
from gateway.runtime.unexpected import FaultPlace
from policies.errors import LedgerUnavailable
from policies.loader import Board
from policies.replaying import BuildStatus

REFRESH_S: Final = 1.0
"""Time between two reads of the ledger, and so the delay of a change that another process made."""


class BuildRegistry:
    """The status of every build, in memory, so that a lookup costs no query.

    While the ledger cannot be read, the statuses that were last read hold.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._overrides: BuildStatuses = {}
        self._read_at: float | None = None

    def status_of(self, board: Board, build: str) -> BuildStatus:
        """Return the status of a build; `allow` if neither the ledger nor the policy names it.

        The boards of a family have their builds in common.
        """
        override = self._overrides.get((board.family or board.name, build))
        if override is not None:
            return override
        declared = board.policy.builds.get(build)
        return declared.status if declared else BuildStatus.ALLOW

    async def refresh(self) -> None:
        """Read the statuses in the ledger. Raises LedgerUnavailable."""
        self._overrides = await self._ledger.read(build_statuses(), ReadKind.REQUESTS)
        self._read_at = time.monotonic()

    async def refresh_if_old(self) -> None:
        """Read the statuses unless they are fresh. Raises LedgerUnavailable if they were never read."""
        if self._read_at is not None and time.monotonic() - self._read_at < REFRESH_S:
            return
        try:
            await self.refresh()
        except LedgerUnavailable:
            if self._read_at is None:
                raise

    async def keep_fresh(self) -> None:
        """Read the statuses every REFRESH_S until cancelled."""
        await refresh_for_ever(self.refresh, REFRESH_S, part="builds", place=FaultPlace.BUILDS)
