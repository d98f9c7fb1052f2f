"""Charges to limits by key: one Redis call for all limits of a request, a local bucket without Redis."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from redis.asyncio import Redis

from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.limits import NETWORK_SHARE, HourlyRate, Rate, charged


class Cell(NamedTuple):
    """A charge to a key: units of its rate, where more than the whole burst count as the burst."""

    key: str
    rate: Rate | HourlyRate
    units: int = 1


class LocalLimiter:
    """GCRA in this process's memory, for the most recent `size` keys, by the monotonic clock (ns)."""

    def __init__(self, size: int = 65_536, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._arrivals: OrderedDict[str, int] = OrderedDict()
        self._size = size
        self._now_ns = now_ns

    def charge(self, *cells: tuple[str, Rate] | Cell) -> list[int]:
        """Return the milliseconds until each cell fits; if all are 0, they are charged."""
        now_us = self._now_ns() // 1000
        charges = [Cell(*cell) for cell in cells]
        waits_ms = [max(0, -(-self._charged(charge, now_us)[0] // 1000)) for charge in charges]
        if not any(waits_ms):
            for charge in charges:
                _, self._arrivals[charge.key] = self._charged(charge, now_us)
                self._arrivals.move_to_end(charge.key)
        while len(self._arrivals) > self._size:
            self._arrivals.popitem(last=False)
        return waits_ms

    def _charged(self, cell: Cell, now_us: int) -> tuple[int, int]:
        return charged(cell.rate, self._arrivals.get(cell.key, 0), now_us, cell.units)


class Limit(NamedTuple):
    """A limit of a request: its key, its rate, and that of its KiB, None for none."""

    key: str
    rate: Rate | HourlyRate
    kib: Rate | None = None


class LimitRefusal(NamedTuple):
    """The place of the first limit without room, and the time until it has (ms), in KiB or in requests."""

    at: int
    wait_ms: int
    is_of_kib: bool


class Charges:
    """Charges requests to several limits, or to none. Fails limited: without Redis this process decides.

    On a cluster, keys that are charged together share a slot.
    """

    def __init__(self, client: Redis, *, local: LocalLimiter | None = None) -> None:
        self._script = Script(client, "charge_limits")
        self._local = local or LocalLimiter()

    async def charge(self, limits: Sequence[Limit], *, kib: int = 1) -> LimitRefusal | None:
        """Charge a request of this size to all limits, or to none if one has no room. Return that one."""
        arguments = chain.from_iterable(numbers_of(limit.rate, limit.kib) for limit in limits)
        try:
            wait_ms, at, is_of_kib = await self._script([limit.key for limit in limits], [kib, *arguments])
        except IndexUnavailable:
            return self._charge_locally(limits, kib)
        return LimitRefusal(at - 1, wait_ms, bool(is_of_kib)) if wait_ms else None

    def _charge_locally(self, limits: Sequence[Limit], kib: int) -> LimitRefusal | None:
        cells = {(at, False): Cell(limit.key, limit.rate) for at, limit in enumerate(limits)}
        cells |= {
            (at, True): Cell(f"{limit.key} kib", limit.kib, kib)
            for at, limit in enumerate(limits)
            if limit.kib
        }
        waits_ms = dict(zip(cells, self._local.charge(*cells.values()), strict=True))
        for at in range(len(limits)):
            wait_ms, kib_wait_ms = waits_ms[at, False], waits_ms.get((at, True), 0)
            if wait_ms or kib_wait_ms:
                return LimitRefusal(at, max(wait_ms, kib_wait_ms), kib_wait_ms > wait_ms)
        return None

    async def wait_ms(self, *limits: Limit) -> int:
        """Return the milliseconds until a request fits all limits; 0 means now, and charges it."""
        refusal = await self.charge(limits)
        return refusal.wait_ms if refusal else 0


class KeyedLimit:
    """A limit by key, for other requests than submissions."""

    def __init__(
        self,
        client: Redis,
        rate: Rate | HourlyRate,
        key: Callable[[str], str],
        *,
        local: LocalLimiter | None = None,
    ) -> None:
        self._charges = Charges(client, local=local)
        self._rate = rate
        self._key = key

    async def wait_ms(self, name: str) -> int:
        """Return the milliseconds until `name` may come again; 0 means now, and charges one."""
        return await self._charges.wait_ms(Limit(self._key(name), self._rate))


class AddressLimit:
    """A limit by address, and one `NETWORK_SHARE` times as wide by network; both are charged, or neither."""

    def __init__(self, client: Redis, rate: Rate, key: Callable[[str, str], str]) -> None:
        self._charges = Charges(client)
        self._rates = (rate, rate.times(NETWORK_SHARE))
        self._key = key

    async def wait_ms(self, address: str, network: str) -> int:
        """Return the milliseconds until the address may come again; 0 means now, and charges one."""
        keys = (self._key(network, address), self._key(network, ""))
        return await self._charges.wait_ms(*map(Limit, keys, self._rates))


def numbers_of(rate: Rate | HourlyRate, kib: Rate | None = None) -> tuple[int, int, int, int]:
    """Return a script's limit: interval (µs) and burst of requests, then of KiB (0: unlimited)."""
    of_kib = (kib.interval_us, kib.burst) if kib else (0, 0)
    return (rate.interval_us, rate.burst, *of_kib)
