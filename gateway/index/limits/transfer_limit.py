"""Limits on transfers of files: by their number and by their bytes, in one call for all of their senders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

from redis.asyncio import Redis

from gateway.index.limits.admission import Cell, LocalLimiter, numbers_of
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.limits import Rate

KIB: Final = 1024


class TransferQuota(NamedTuple):
    """The transfers and KiB that count under a key.

    On a cluster, keys that are charged together share a slot.
    """

    key: str
    requests: Rate
    kib: Rate


class TransferLimit:
    """Charges transfers to several quotas, or to none. Fails limited: without Redis this process decides."""

    def __init__(self, client: Redis) -> None:
        self._script = Script(client, "charge_limits")
        self._local = LocalLimiter()

    async def wait_ms(self, size_bytes: int, *quotas: TransferQuota) -> int:
        """Return the milliseconds until a transfer of this size fits; 0 means now, and charges it."""
        kib = max(1, -(-size_bytes // KIB))
        try:
            arguments = chain.from_iterable(numbers_of(quota.requests, quota.kib) for quota in quotas)
            wait_ms, _ = await self._script([quota.key for quota in quotas], [kib, *arguments])
        except IndexUnavailable:
            wait_ms = self._charge_locally(kib, quotas)
        return int(wait_ms)

    def _charge_locally(self, kib: int, quotas: Sequence[TransferQuota]) -> int:
        requests = [Cell(f"{quota.key} requests", quota.requests) for quota in quotas]
        sizes = [Cell(f"{quota.key} kib", quota.kib, kib) for quota in quotas]
        return max(self._local.charge(*requests, *sizes))
