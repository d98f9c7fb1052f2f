"""The steward's part in hashed addresses: it deletes those whose time is over."""

from __future__ import annotations

from gateway.ledger.ledger import Ledger
from gateway.ledger.players.addresses import addresses_over, forget_addresses
from gateway.runtime.clock import Clock

DAY_MS = 86_400_000


class AddressForgetter:
    """Deletes addresses that were noted last more than `days` ago; of 0 days, all there are."""

    def __init__(self, ledger: Ledger, *, days: int, clock: Clock) -> None:
        self._ledger = ledger
        self._days = days
        self._clock = clock

    async def step(self) -> int:
        """Delete some addresses whose time is over, and return how many. Raises LedgerUnavailable."""
        before_ms = self._clock() - self._days * DAY_MS
        if not await self._ledger.read(addresses_over(before_ms=before_ms)):
            return 0
        return await self._ledger.write(forget_addresses(before_ms=before_ms))
