"""The limits on opening boards: of a player, of an address and of a network, by the family of the boards."""

from __future__ import annotations

from typing import NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.limits.charging import Charges, Limit
from policies.family_policy import Opening
from policies.limits import HourlyRate


class OpeningRefusal(NamedTuple):
    """A limit that has no room: its name and rate, and the time until it has (ms)."""

    name: str
    rate: HourlyRate
    wait_ms: int


class OpeningQuotas:
    """The limits of single players, addresses and networks."""

    def __init__(self, client: Redis) -> None:
        self._charges = Charges(client)

    async def charge(
        self, family: str, opening: Opening, *, player: str, address: str, network: str
    ) -> OpeningRefusal | None:
        """Charge one opening to all three limits, or to none if one has no room, and return that one."""
        limits = (
            ("player", player, opening.player_rate),
            ("address", address, opening.address_rate),
            ("network", network, opening.network_rate),
        )
        refusal = await self._charges.charge(
            [Limit(keys.opening_limit(family, kind, who), rate) for kind, who, rate in limits]
        )
        if refusal is None:
            return None
        kind, _, rate = limits[refusal.at]
        return OpeningRefusal(f"{kind}-openings", rate, refusal.wait_ms)
