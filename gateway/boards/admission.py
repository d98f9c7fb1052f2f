"""Rate limits and known histories, one Redis call for all submissions of a moment; a local bucket when Redis is down."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.batcher import Batcher
from gateway.boards.scripts import Script
from policies.errors import IndexUnavailable
from policies.model import Limits, Rate
from validators.baseline import EMPTY, Baseline
from validators.submission import History


class Admission(IntEnum):
    """What the limits say of a submission; the numbers are those of `admit.lua`."""

    ADMITTED = 0
    KNOWN = 1
    PLAYER_LIMITED = 2
    ADDRESS_LIMITED = 3


@dataclass(frozen=True, slots=True)
class Asking:
    """Who wants to be let past: the submission, its player, and the hashed client address."""

    submission_id: str
    player: str
    address: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """The answer: whether, how long to wait (ms), how many more would fit, and the history if Redis had it."""

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
        self._batcher: Batcher[Asking, Admitted] = Batcher(self._send)
        self._fixed_keys = [keys.pending(board), keys.settled(board), keys.baselines(board)]
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
                (keys.limit(self._board, "player", each.player), keys.limit(self._board, "address", each.address))
                for each in group
            )
        )
        whose = chain(*((each.submission_id, each.player) for each in group))
        population, *rows = await self._script([*self._fixed_keys, *limit_keys], [*self._fixed_arguments, *whose])
        known = _baseline(population)
        return [
            Admitted(Admission(status), wait_ms, left, History(_baseline(baseline), known))
            for status, wait_ms, left, baseline in rows
        ]

    def _admit_locally(self, asking: Asking) -> Admitted:
        wait_ms = self._local.wait_ms(f"player:{asking.player}", self._limits.player)
        if wait_ms:
            return Admitted(Admission.PLAYER_LIMITED, wait_ms, 0, None)
        wait_ms = self._local.wait_ms(f"address:{asking.address}", self._limits.address)
        if wait_ms:
            return Admitted(Admission.ADDRESS_LIMITED, wait_ms, 0, None)
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
            return self._local.wait_ms(who, self._rate)
        return int(wait_ms)


class LocalLimiter:
    """GCRA in this process's memory, over the most recent `size` keys, by the monotonic clock."""

    def __init__(self, size: int = 65_536, now: Callable[[], float] = time.monotonic) -> None:
        self._arrivals: OrderedDict[str, float] = OrderedDict()
        self._size = size
        self._now = now

    def wait_ms(self, key: str, rate: Rate) -> int:
        """Milliseconds until one more fits; 0 means now, and charges it."""
        now_us = self._now() * 1_000_000
        interval = interval_us(rate)
        arrival = max(self._arrivals.get(key, 0.0), now_us)
        wait_us = arrival - interval * (rate.burst - 1) - now_us
        if wait_us > 0:
            return int(wait_us / 1000) + 1
        self._arrivals[key] = arrival + interval
        self._arrivals.move_to_end(key)
        if len(self._arrivals) > self._size:
            self._arrivals.popitem(last=False)
        return 0


def interval_us(rate: Rate) -> float:
    """Microseconds between two cells of a steady stream."""
    return 60_000_000 / rate.per_minute


def _baseline(stored: Any) -> Baseline:
    if not stored:
        return EMPTY
    _, count, mean, squares = stored.split(" ")
    return Baseline(int(count), float(mean), float(squares))
