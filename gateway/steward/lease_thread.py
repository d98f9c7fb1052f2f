"""The thread that keeps a steward's leases, whatever its duties do to their event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from gateway.ledger.ledger import Ledger
from gateway.runtime.background import rest, run_on_a_thread
from gateway.runtime.clock import Clock
from gateway.runtime.settings import STEWARD_LEASE_S
from gateway.runtime.telemetry import Event, logger
from gateway.steward.leases import StewardLeases
from policies.errors import LedgerUnavailable

BEAT_S: Final = 1.0
"""Seconds between two signs of life of the duties' event loop."""

HUNG_S: Final = 30.0
"""Seconds without a sign of life after which the leases are no longer renewed, so that others take over.

A duty that computes for seconds on a busy machine stays well below; one that hangs never comes back.
"""

RETRY_S: Final = 0.5

_log = logger()


class LeasesOnAThread(StewardLeases):
    """Leases that a thread keeps on a ledger of its own, so that no duty delays a renewal.

    `own_ledger` makes that ledger, which is opened and closed on the thread.
    """

    def __init__(
        self,
        ledger: Ledger,
        own_ledger: Callable[[], Ledger],
        *,
        clock: Clock,
        lease_s: float = STEWARD_LEASE_S,
        hung_s: float = HUNG_S,
    ) -> None:
        super().__init__(ledger, clock=clock, lease_s=lease_s)
        self._duties_ledger = ledger
        self._own_ledger = own_ledger
        self._hung_s = hung_s
        self._alive_ms = math.inf

    async def keep(self) -> None:
        """Keep the leases on a thread until cancelled, as long as this event loop shows signs of life."""
        beating = asyncio.create_task(self._beat())
        try:
            await run_on_a_thread(self._keep_there, name="leases")
        finally:
            beating.cancel()
            self._alive_ms = math.inf

    async def turn(self) -> None:
        """Renew, claim and share, unless the duties hang. Raises LedgerUnavailable."""
        silent_s = (self._steady() - self._alive_ms) / 1000
        if silent_s > self._hung_s:
            _log.error(Event.DUTY_FAILED, duty="leases", error=f"the duties hang for {silent_s:.0f} s")
            return
        await super().turn()

    async def _beat(self) -> None:
        while True:
            self._alive_ms = self._steady()
            await rest(BEAT_S)

    async def _keep_there(self) -> None:
        own = self._own_ledger()
        try:
            await _opened(own)
            self._ledger = own
            await super().keep()
        finally:
            self._ledger = self._duties_ledger
            await own.close()


async def _opened(ledger: Ledger) -> None:
    """Open a ledger, however long that takes."""
    while True:
        try:
            await ledger.open()
        except LedgerUnavailable as error:
            _log.warning(Event.LEDGER_DOWN, part="leases", error=str(error))
            await rest(RETRY_S)
        else:
            return
