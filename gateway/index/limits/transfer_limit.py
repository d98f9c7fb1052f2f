"""Limits on transfers of files: by their number and by their bytes, in one call for all of their senders."""

from __future__ import annotations

from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index.limits.charging import Charges, Limit
from policies.limits import Rate

KIB: Final = 1024


class TransferQuota(NamedTuple):
    """The transfers and KiB that count under a key, and the name of their sender's kind in refusals.

    On a cluster, keys that are charged together share a slot.
    """

    name: str
    key: str
    requests: Rate
    kib: Rate


class TransferRefusal(NamedTuple):
    """A quota that has no room, in transfers or in KiB (`is_of_kib`), and the time until it has (ms)."""

    quota: TransferQuota
    is_of_kib: bool
    wait_ms: int


class TransferLimit:
    """Charges transfers to several quotas, or to none."""

    def __init__(self, client: Redis) -> None:
        self._charges = Charges(client)

    async def charge(self, size_bytes: int, *quotas: TransferQuota) -> TransferRefusal | None:
        """Charge a transfer of this size to all quotas, or to none if one has no room. Return that one."""
        limits = [Limit(quota.key, quota.requests, quota.kib) for quota in quotas]
        refusal = await self._charges.charge(limits, kib=max(1, -(-size_bytes // KIB)))
        return TransferRefusal(quotas[refusal.at], refusal.is_of_kib, refusal.wait_ms) if refusal else None
