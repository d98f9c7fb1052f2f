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
    """Charges transfers to several quotas, or to none. Fails limited: without Redis this process decides."""

    def __init__(self, client: Redis) -> None:
        self._script = Script(client, "charge_limits")
        self._local = LocalLimiter()

    async def charge(self, size_bytes: int, *quotas: TransferQuota) -> TransferRefusal | None:
        """Charge a transfer of this size to all quotas, or to none if one has no room. Return that one."""
        kib = max(1, -(-size_bytes // KIB))
        try:
            arguments = chain.from_iterable(numbers_of(quota.requests, quota.kib) for quota in quotas)
            wait_ms, at, is_of_kib = await self._script([quota.key for quota in quotas], [kib, *arguments])
        except IndexUnavailable:
            return self._charge_locally(kib, quotas)
        return TransferRefusal(quotas[at - 1], bool(is_of_kib), wait_ms) if wait_ms else None

    def _charge_locally(self, kib: int, quotas: Sequence[TransferQuota]) -> TransferRefusal | None:
        requests = [Cell(f"{quota.key} requests", quota.requests) for quota in quotas]
        sizes = [Cell(f"{quota.key} kib", quota.kib, kib) for quota in quotas]
        waits_ms = self._local.charge(*requests, *sizes)
        of_requests, of_kib = waits_ms[: len(quotas)], waits_ms[len(quotas) :]
        for quota, wait_ms, kib_wait_ms in zip(quotas, of_requests, of_kib, strict=True):
            if wait_ms or kib_wait_ms:
                return TransferRefusal(quota, kib_wait_ms > wait_ms, max(wait_ms, kib_wait_ms))
        return None
