"""Probes of the ledger and the index, shared by all requests for readiness."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from gateway.index.board_indexes import Index
from gateway.index.connection import probe
from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from gateway.runtime.lanes import LANES
from policies.errors import IndexUnavailable, LedgerOverloaded, LedgerUnavailable

LIFETIME_S: Final = 1.0
"""Time that a result is shared: readiness is public, and each probe costs a commit and a write to Redis."""

PROBE_TIMEOUT_S: Final = 2.0


class Probes:
    """The last results of the probes. It belongs to one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        index: Index,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._monotonic_s = monotonic_s
        self._probing: asyncio.Task[tuple[bool, bool]] | None = None
        self._expires_s = -math.inf

    async def answers(self) -> tuple[bool, bool]:
        """Return whether the ledger and whether the index takes writes. Concurrent callers share a probe."""
        if self._probing is None or (self._probing.done() and self._monotonic_s() >= self._expires_s):
            self._probing = asyncio.create_task(self._probe(), name="probes")
        return await asyncio.shield(self._probing)

    def forget(self) -> None:
        """Drop the last results, so that the next caller probes again."""
        self._probing = None

    async def _probe(self) -> tuple[bool, bool]:
        has_ledger, has_index = await asyncio.gather(self._has_ledger(), self._has_index())
        self._expires_s = self._monotonic_s() + LIFETIME_S
        return has_ledger, has_index

    async def _has_ledger(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._ledger.write(work.probe())
        except LedgerOverloaded:
            pass  # it works at full capacity; taking the edge out of service would only overload another
        except (LedgerUnavailable, TimeoutError):
            return False
        return not self._ledger.is_refusing

    async def _has_index(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await probe(self._index.client, range(LANES), kept_ms=int(LIFETIME_S * 1000))
        except (IndexUnavailable, TimeoutError):
            return False
        return True
