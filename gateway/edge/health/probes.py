"""Whether the ledger and the index take writes, asked seldom however many want to know."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from gateway.index.board_index import Index
from gateway.index.connection import probe
from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from policies.errors import IndexUnavailable, LedgerOverloaded, LedgerUnavailable
from policies.loader import Board

KEPT_S: Final = 1.0
"""An answer is given to everybody for so long: readiness is public, and each probe is a commit and a write to Redis."""

PROBE_TIMEOUT_S: Final = 2.0


class Probes:
    """What the two said when they were last asked. It belongs to one event loop."""

    def __init__(
        self,
        ledger: Ledger,
        index: Index,
        boards: Mapping[str, Board],
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._boards = boards
        self._monotonic_s = monotonic_s
        self._asking: asyncio.Task[tuple[bool, bool]] | None = None
        self._kept_until_s = -math.inf

    async def answers(self) -> tuple[bool, bool]:
        """Whether the ledger, and whether the index takes writes. Whoever asks while it is being asked shares the answer."""
        if self._asking is None or (self._asking.done() and self._monotonic_s() >= self._kept_until_s):
            self._asking = asyncio.create_task(self._ask(), name="probes")
        return await asyncio.shield(self._asking)

    def forget(self) -> None:
        """Has the next who wants to know ask anew."""
        self._asking = None

    async def _ask(self) -> tuple[bool, bool]:
        has_ledger, has_index = await asyncio.gather(self._has_ledger(), self._has_index())
        self._kept_until_s = self._monotonic_s() + KEPT_S
        return has_ledger, has_index

    async def _has_ledger(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._ledger.write(work.probe())
        except LedgerOverloaded:
            pass  # it does nothing but work: who is sent elsewhere for that makes it the same there
        except (LedgerUnavailable, TimeoutError):
            return False
        return not self._ledger.is_refusing

    async def _has_index(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await probe(self._index.client, self._boards, kept_ms=int(KEPT_S * 1000))
        except (IndexUnavailable, TimeoutError):
            return False
        return True
