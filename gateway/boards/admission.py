"""Rate limits and known histories, one Redis call for all submissions of a moment; a local bucket when Redis is down."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.batcher import Batcher
from gateway.boards.scripts import Script
from policies.errors import IndexUnavailable
from policies.model import Limits, Rate
from validators.baseline import EMPTY, Baseline, population_of
from validators.submission import History

ADMIT_LINGER_S: Final = 0.001
"""How long submissions gather before they are let past together: a millisecond of each for half the calls."""


class Admission(IntEnum):
    """What the limits say of a submission; the numbers are those of `admit.lua`."""

    ADMITTED = 0
    KNOWN = 1
    PLAYER_LIMITED = 2
    ADDRESS_LIMITED = 3


_ADMISSIONS: Final = tuple(Admission)


class Asking(NamedTuple):
    """Who wants to be let past: the submission, its player, the hashed client address, and the build that was played."""

    submission_id: str
    player: str
    address: str
    build: str = ""


class Admitted(NamedTuple):
    """The answer: whether, how long to wait (ms), how many more would fit, and the history if Redis has all of it."""

    admission: Admission
    wait_ms: int
    left: int
    history: History | None


class SubmissionLimits:
    """The limits of one board's submissions. Fails limited: without Redis a bucket of this process decides."""

    def __init__(self, client: Redis, board: str, limits: Limits) -> None:
        self._board = board
        self._limits = limits
        self._script = Script(client, "admit")
        self._local = LocalLimiter()
        self._batcher: Batcher[Asking, Admitted] = Batcher(self._send, linger_s=ADMIT_LINGER_S)
        self._fixed_keys = [
            keys.pending(board),
            keys.settled(board),
            keys.baselines(board),
            keys.sentinel(board),
        ]
        self._fixed_arguments = [
            interval_us(limits.player),
            limits.player.burst,
            interval_us(limits.address),
            limits.address.burst,
        ]

    async def admit(self, asking: Asking) -> Admitted:
        """Whether the submission may pass now, charging both limits if it may."""
        try:
            return await self._batcher.ask(asking)
        except IndexUnavailable:
            return self._admit_locally(asking)

    async def _send(self, group: Sequence[Asking]) -> Sequence[Admitted]:
        limit_keys = chain(
            *(
                (
                    keys.limit(self._board, "player", each.player),
                    keys.limit(self._board, "address", each.address),
                )
                for each in group
            )
        )
        fields = [keys.POPULATION_FIELD, *{population_of(each.build) for each in group}]
        whose = chain(*((each.submission_id, each.player) for each in group))
        answer = await self._script(
            [*self._fixed_keys, *limit_keys], [*self._fixed_arguments, len(fields), *fields, *whose]
        )
        is_whole, *populations = answer[: 1 + len(fields)]
        known = dict(zip(fields, populations, strict=True)) if is_whole else None
        told = answer[1 + len(fields) :]
        return [
            Admitted(_ADMISSIONS[status], wait_ms, left, _history(status, baseline, known, each.build))
            for each, status, wait_ms, left, baseline in zip(
                group, told[0::4], told[1::4], told[2::4], told[3::4], strict=True
            )
        ]

    def _admit_locally(self, asking: Asking) -> Admitted:
        address = (f"address:{asking.address}", self._limits.address)
        player = (f"player:{asking.player}", self._limits.player)
        address_wait_ms, player_wait_ms = self._local.charge(address, player)
        if address_wait_ms:
            return Admitted(Admission.ADDRESS_LIMITED, address_wait_ms, 0, None)
        if player_wait_ms:
            return Admitted(Admission.PLAYER_LIMITED, player_wait_ms, 0, None)
        return Admitted(Admission.ADMITTED, 0, 0, None)


class KeyedLimit:
    """One limit by key, for what is not a submission. Fails limited: without Redis this process decides."""

    def __init__(self, client: Redis, rate: Rate, key: Callable[[str], str]) -> None:
        self._script = Script(client, "limit")
        self._rate = rate
        self._key = key
        self._local = LocalLimiter()

    async def wait_ms(self, who: str) -> int:
        """Milliseconds until `who` may come again; 0 means now, and charges one."""
        try:
            wait_ms, _ = await self._script([self._key(who)], [interval_us(self._rate), self._rate.burst])
        except IndexUnavailable:
            [wait_ms] = self._local.charge((who, self._rate))
        return int(wait_ms)


class LocalLimiter:
    """GCRA in this process's memory, over the most recent `size` keys, by the monotonic clock (ns)."""

    def __init__(self, size: int = 65_536, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._arrivals: OrderedDict[str, int] = OrderedDict()
        self._size = size
        self._now_ns = now_ns

    def charge(self, *cells: tuple[str, Rate]) -> list[int]:
        """Milliseconds until one more fits, for each key and its rate; all 0 means now, and charges them all."""
        now_us = self._now_ns() // 1000
        waits_ms = [self._wait_ms(key, rate, now_us) for key, rate in cells]
        if not any(waits_ms):
            for key, rate in cells:
                self._arrivals[key] = self._arrival_us(key, now_us) + interval_us(rate)
                self._arrivals.move_to_end(key)
        while len(self._arrivals) > self._size:
            self._arrivals.popitem(last=False)
        return waits_ms

    def _wait_ms(self, key: str, rate: Rate, now_us: int) -> int:
        wait_us = self._arrival_us(key, now_us) - interval_us(rate) * (rate.burst - 1) - now_us
        return max(0, -(-wait_us // 1000))

    def _arrival_us(self, key: str, now_us: int) -> int:
        return max(self._arrivals.get(key, 0), now_us)


def interval_us(rate: Rate) -> int:
    """Microseconds between two cells of a steady stream, rounded up.

    Whole, so that arrival times stay exact: what rounding took from each of them would add up to more than the rate.
    """
    return -(-60_000_000 // rate.per_minute)


def _history(status: int, player: Any, populations: Mapping[str, Any] | None, build: str) -> History | None:
    """What is known of a player and of the others, where the script had reason to look.

    None too if it is unreadable, and if the index is not whole (`populations` None): to that everybody is a newcomer.
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
