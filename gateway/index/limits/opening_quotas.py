"""The limits on opening boards: of a player, of an address and of a network, by the family of the boards."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.limits.admission import Cell, LocalLimiter, numbers_of
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.family_policy import Opening
from policies.limits import HourlyRate


class OpeningRefusal(NamedTuple):
    """A limit that has no room: its name and rate, and the time until it has (ms)."""

    name: str
    rate: HourlyRate
    wait_ms: int


class OpeningQuotas:
    """The limits of single players, addresses and networks.

    Fails limited: without Redis this process decides.
    """

    def __init__(self, client: Redis) -> None:
        self._script = Script(client, "charge_limits")
        self._local = LocalLimiter()

    async def charge(
        self, family: str, opening: Opening, *, player: str, address: str, network: str
    ) -> OpeningRefusal | None:
        """Charge one opening to all three limits, or to none if one has no room, and return that one."""
        limits = {
            "player": (player, opening.player_rate),
            "address": (address, opening.address_rate),
            "network": (network, opening.network_rate),
        }
        names = [keys.opening_limit(family, kind, who) for kind, (who, _) in limits.items()]
        rates = [rate for _, rate in limits.values()]
        try:
            wait_ms, at, _ = await self._script(names, [1, *chain(*map(numbers_of, rates))])
            waits_ms = [wait_ms if at == number else 0 for number in range(1, len(rates) + 1)]
        except IndexUnavailable:
            waits_ms = self._local.charge(*map(Cell, names, rates))
        for kind, rate, wait_ms in zip(limits, rates, waits_ms, strict=True):
            if wait_ms:
                return OpeningRefusal(f"{kind}-openings", rate, wait_ms)
        return None
