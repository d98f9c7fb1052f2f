"""Rate limits and histories: one Redis call per batch of submissions, a local bucket without Redis."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.batcher import Batcher
from gateway.index.limits.refusals import LocalCounts, RefusalCounts
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.limits import NETWORK_SHARE, HourlyRate, Limits, Rate
from validators.baseline import EMPTY, Baseline, population_of
from validators.submission import History

ADMIT_LINGER_S: Final = 0.001
"""Time that submissions gather before one call: a millisecond of latency for half the calls."""


class Admission(IntEnum):
    """The decision of the limits on a submission; the numbers are those of `admit_submissions.lua`."""

    ADMITTED = 0
    KNOWN = 1
    PLAYER_LIMITED = 2
    ADDRESS_LIMITED = 3
    NETWORK_LIMITED = 4
    PLAYER_BYTES_LIMITED = 5
    ADDRESS_BYTES_LIMITED = 6
    NETWORK_BYTES_LIMITED = 7
    ABNORMAL = 8


_ADMISSIONS: Final = tuple(Admission)

VALUES_PER_SUBMISSION: Final = 5
"""Values that `admit_submissions.lua` returns per submission."""


class AdmissionRequest(NamedTuple):
    """A request to admit a submission. `address` and `network` are hashed; `kib` is the size of its body."""

    submission_id: str
    player: str
    address: str
    build: str = ""
    network: str = ""
    kib: int = 1


class AdmissionResult(NamedTuple):
    """The decision on a submission: wait (ms), remaining submissions, and the history if Redis has all of it.

    `refusals` counts those for which the player was limited before.
    """

    admission: Admission
    wait_ms: int
    left: int
    history: History | None
    refusals: int = 0


class SubmissionLimits:
    """The limits of one board's submissions. Fails limited: without Redis this process decides."""

    def __init__(
        self, client: Redis, board: str, limits: Limits, *, local: LocalLimits | None = None
    ) -> None:
        local = local or LocalLimits()
        self._board = board
        self._limits = limits
        self._script = Script(client, "admit_submissions")
        self._local = local.charges
        self._refusals = RefusalCounts(client, board, limits.refused, local=local.refusals)
        self._batcher: Batcher[AdmissionRequest, AdmissionResult] = Batcher(
            self._send, linger_s=ADMIT_LINGER_S
        )
        self._fixed_keys = [
            keys.pending(board),
            keys.settled(board),
            keys.baselines(board),
            keys.sentinel(board),
        ]
        self._fixed_arguments = [
            *numbers_of(limits.player, limits.player_kib),
            *numbers_of(limits.address, limits.address_kib),
            *numbers_of(limits.of_network, limits.of_network_kib),
            limits.refused.window_s * 1000,
        ]

    async def admit(self, request: AdmissionRequest) -> AdmissionResult:
        """Decide whether the submission may pass now, and charge every limit if it may."""
        try:
            return await self._batcher.ask(request)
        except IndexUnavailable:
            return self._admit_locally(request)

    async def note_refusal(self, player: str, address: str) -> bool:
        """Count a refused claim, or one rejected at once. Return whether player or address have too many."""
        return await self._refusals.note(player, address)

    async def _send(self, group: Sequence[AdmissionRequest]) -> Sequence[AdmissionResult]:
        limit_keys = chain(*map(self._keys_of, group))
        fields = [keys.POPULATION_FIELD, *{population_of(request.build) for request in group}]
        submissions = chain(*((request.submission_id, request.player, request.kib) for request in group))
        answer = await self._script(
            [*self._fixed_keys, *limit_keys], [*self._fixed_arguments, len(fields), *fields, *submissions]
        )
        is_whole, *populations = answer[: 1 + len(fields)]
        by_field = dict(zip(fields, populations, strict=True)) if is_whole else None
        values = answer[1 + len(fields) :]
        return [
            AdmissionResult(
                _ADMISSIONS[status],
                wait_ms,
                left,
                _history(status, baseline, by_field, request.build),
                refusals,
            )
            for request, status, wait_ms, left, baseline, refusals in zip(
                group,
                *(values[at::VALUES_PER_SUBMISSION] for at in range(VALUES_PER_SUBMISSION)),
                strict=True,
            )
        ]

    def _keys_of(self, request: AdmissionRequest) -> Sequence[str]:
        of = partial(keys.limit, self._board)
        limits = (
            of("player", request.player),
            of("address", request.address),
            of("network", request.network),
        )
        return [*limits, *self._refusals.keys_of(request.player, request.address)]

    def _admit_locally(self, request: AdmissionRequest) -> AdmissionResult:
        limits, board = self._limits, self._board
        cells = {
            Admission.NETWORK_LIMITED: Cell(f"{board} network:{request.network}", limits.of_network),
            Admission.ADDRESS_LIMITED: Cell(f"{board} address:{request.address}", limits.address),
            Admission.NETWORK_BYTES_LIMITED: Cell(
                f"{board} network-kib:{request.network}", limits.of_network_kib, request.kib
            ),
            Admission.ADDRESS_BYTES_LIMITED: Cell(
                f"{board} address-kib:{request.address}", limits.address_kib, request.kib
            ),
            Admission.PLAYER_LIMITED: Cell(f"{board} player:{request.player}", limits.player),
            Admission.PLAYER_BYTES_LIMITED: Cell(
                f"{board} player-kib:{request.player}", limits.player_kib, request.kib
            ),
        }
        refused_ms = self._refusals.wait_ms(request.player, request.address)
        if refused_ms:
            return AdmissionResult(Admission.ABNORMAL, refused_ms, 0, None)
        for admission, wait_ms in zip(cells, self._local.charge(*cells.values()), strict=True):
            if wait_ms:
                return AdmissionResult(admission, wait_ms, 0, None)
        return AdmissionResult(Admission.ADMITTED, 0, 0, None)


class KeyedLimit:
    """A limit by key, for other requests. Fails limited: without Redis this process decides."""

    def __init__(
        self, client: Redis, rate: Rate, key: Callable[[str], str], *, local: LocalLimiter | None = None
    ) -> None:
        self._script = Script(client, "charge_limits")
        self._rate = rate
        self._key = key
        self._local = local or LocalLimiter()

    async def wait_ms(self, name: str) -> int:
        """Return the milliseconds until `name` may come again; 0 means now, and charges one."""
        try:
            wait_ms, *_ = await self._script([self._key(name)], [1, *numbers_of(self._rate)])
        except IndexUnavailable:
            [wait_ms] = self._local.charge(Cell(self._key(name), self._rate))
        return int(wait_ms)


class AddressLimit:
    """A limit by address, and one `NETWORK_SHARE` times as wide by network; both are charged, or neither.

    Fails limited: without Redis this process decides.
    """

    def __init__(self, client: Redis, rate: Rate, key: Callable[[str, str], str]) -> None:
        self._script = Script(client, "charge_limits")
        self._rates = (rate, rate.times(NETWORK_SHARE))
        self._key = key
        self._local = LocalLimiter()

    async def wait_ms(self, address: str, network: str) -> int:
        """Return the milliseconds until the address may come again; 0 means now, and charges one."""
        arguments = chain(*map(numbers_of, self._rates))
        try:
            wait_ms, *_ = await self._script(
                [self._key(network, address), self._key(network, "")], [1, *arguments]
            )
        except IndexUnavailable:
            names = (f"address:{address}", f"network:{network}")
            wait_ms = max(self._local.charge(*map(Cell, names, self._rates)))
        return int(wait_ms)


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
        waits_ms = [self._wait_ms(cell, now_us) for cell in charges]
        if not any(waits_ms):
            for key, rate, units in charges:
                charged = rate.interval_us * min(units, rate.burst)
                self._arrivals[key] = self._arrival_us(key, now_us) + charged
                self._arrivals.move_to_end(key)
        while len(self._arrivals) > self._size:
            self._arrivals.popitem(last=False)
        return waits_ms

    def _wait_ms(self, cell: Cell, now_us: int) -> int:
        missing = cell.rate.burst - min(cell.units, cell.rate.burst)
        wait_us = self._arrival_us(cell.key, now_us) - cell.rate.interval_us * missing - now_us
        return max(0, -(-wait_us // 1000))

    def _arrival_us(self, key: str, now_us: int) -> int:
        return max(self._arrivals.get(key, 0), now_us)


class LocalLimits:
    """What a process counts by itself while Redis is away, for the boards of which it has parts."""

    def __init__(self, size: int = 65_536) -> None:
        self.charges = LocalLimiter(size)
        self.refusals = LocalCounts(size)


def numbers_of(rate: Rate | HourlyRate, kib: Rate | None = None) -> tuple[int, int, int, int]:
    """Return a script's limit: interval (µs) and burst of requests, then of KiB (0: unlimited)."""
    of_kib = (kib.interval_us, kib.burst) if kib else (0, 0)
    return (rate.interval_us, rate.burst, *of_kib)


def _history(status: int, player: Any, populations: Mapping[str, Any] | None, build: str) -> History | None:
    """Return the history of a player and of the populations, for admitted submissions.

    Return None if it is unreadable, or if `populations` is None because the index is not whole: every player
    would be a newcomer.
    """
    if status != Admission.ADMITTED or populations is None:
        return None
    try:
        return History(
            _baseline(player),
            _baseline(populations[keys.POPULATION_FIELD]),
            _baseline(populations[population_of(build)]),
        )
    except ValueError:
        return None


def _baseline(stored: Any) -> Baseline:
    return keys.baseline_from_value(stored) if stored else EMPTY
