"""The parts of an edge by which it knows players again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redis.asyncio import Redis

from gateway.edge.identities.digests import IdentityDigests
from gateway.edge.identities.provider import PlayerProvider
from gateway.index import keys
from gateway.index.limits.charging import AddressLimit, KeyedLimit
from policies.limits import HourlyRate, Rate

RECOVERY_RATE: Final = Rate(per_minute=2, burst=10)
"""Recovery codes that one address may try; a network gets `NETWORK_SHARE` times as many.

There is no limit for everybody together: a code has 95 random bits, and strangers would use it up.
"""

NAME_RATE: Final = HourlyRate(per_hour=3)
"""Names that a player may choose."""

EXPORT_RATE: Final = HourlyRate(per_hour=6)
"""Copies of all their data that a player may get: each reads every run and its events."""


EXPORT_RUNS: Final = 20_000
"""Runs of one copy, after which the next request goes on."""

EXPORT_BYTES: Final = 32 * 2**20
"""Bytes of runs after which a copy ends likewise, with the page that it is at."""


class IdentityParts:
    """Digests of identities, the providers that show some, and limits on guesses."""

    def __init__(self, client: Redis, key: bytes, providers: Mapping[str, PlayerProvider]) -> None:
        self.providers = providers
        self.digests = IdentityDigests(key)
        self._by_address = AddressLimit(client, RECOVERY_RATE, keys.recovery_address)
        self._names = KeyedLimit(client, NAME_RATE, keys.own_name)
        self._exports = KeyedLimit(client, EXPORT_RATE, keys.own_export)

    async def name_wait_ms(self, player: str) -> int:
        """Return the milliseconds until a player may choose a name; 0 means now, and counts it."""
        return await self._names.wait_ms(player)

    async def export_wait_ms(self, player: str) -> int:
        """Return the milliseconds until a player gets a copy of their data; 0 means now, and counts it."""
        return await self._exports.wait_ms(player)

    async def recovery_wait_ms(self, address: str, network: str) -> int:
        """Return the milliseconds until a client may try a recovery code; 0 means now, and counts it."""
        return await self._by_address.wait_ms(address, network)
