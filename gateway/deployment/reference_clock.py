"""The time that all processes of a deployment share, however their own clocks are set.

A process keeps the offset between the shared clock and its own steady one (time since boot, which nobody sets), so its
wall clock decides nothing. How far off that may be is known too: whoever decides by time allows for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.telemetry import CLOCK_ERROR, CLOCK_OFFSET, Event, logger

REFRESH_S: Final = 5.0
"""How often the shared clock is asked for."""

RETRY_S: Final = 0.5
"""The same while it has never answered."""

SAMPLES: Final = 4
"""Questions of one measurement; the one with the shortest way there and back counts (as in RFC 5905, section 10)."""

UNMEASURED_MS: Final = 600_000
"""The doubt about a clock that was compared with nothing."""

FAR_MS: Final = 300_000
"""A shared clock that leaps farther than this is followed only if that brings it nearer to our own."""

NOTICED_MS: Final = 100
"""A leap from here on is remembered as doubt: runs that were opened before it are still to come in."""

MEMORY_S: Final = 86_400
"""How long it is remembered, unless the longest run of the boards says otherwise."""

DRIFT: Final = 0.0005
"""How far a steady clock may go wrong, per unit of time: 500 ppm, the most that NTP slews by (RFC 5905)."""

_log = logger()


class Source(Protocol):
    """A clock that every process can ask."""

    name: str

    async def now_us(self) -> int | None:
        """Its time (Unix microseconds), None if it does not answer. Fails open."""
        ...


class Measure(NamedTuple):
    """What a source's clock is ahead of the steady one (ms), how far off that may be, and when it was found (steady ms)."""

    offset_ms: float
    error_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True)
class _Doubt:
    size_ms: float
    until_ms: float


def steady_ms() -> float:
    """Milliseconds since boot, sleep included where the system counts it; nobody sets this clock."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) / 1e6


class ReferenceClock:
    """A `Clock` that follows the first of its sources that answers; without any, our own clock with a large doubt."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        memory_s: float = MEMORY_S,
        wall: Clock = wall_clock,
        steady: Callable[[], float] = steady_ms,
    ) -> None:
        self._sources = sources
        self._memory_ms = memory_s * 1000
        self._wall = wall
        self._steady = steady
        self._held: Measure | None = None
        self._leading = ""
        self._contested_ms = 0.0
        self._doubts: list[_Doubt] = []

    def __call__(self) -> int:
        """The shared time (Unix ms)."""
        return self._wall() if self._held is None else int(self._steady() + self._held.offset_ms)

    def earliest(self) -> int:
        """The earliest that it can be now (Unix ms): what convicts whom it finds late goes by this."""
        return self() - self.error_ms

    @property
    def is_measured(self) -> bool:
        """False while no source has ever answered, so that this is nothing but our own clock."""
        return self._held is not None

    @property
    def error_ms(self) -> int:
        """How far the shared time may be from what this says (ms), and from what it said before a leap."""
        if self._held is None:
            return UNMEASURED_MS
        now_ms = self._steady()
        self._doubts = [each for each in self._doubts if each.until_ms > now_ms]
        remembered = max((each.size_ms for each in self._doubts), default=0.0)
        aged = (now_ms - self._held.at_ms) * DRIFT
        return round(self._held.error_ms + aged + max(remembered, self._contested_ms)) + 1

    @property
    def offset_ms(self) -> int:
        """What our own wall clock is ahead of the shared one (ms)."""
        return self._wall() - self()

    async def measure(self) -> None:
        """Asks every source once, and follows what they say."""
        found = {source.name: await self._measure(source) for source in self._sources}
        own_ms = self._wall() - self._steady()
        for name, each in found.items():
            if each is not None:
                CLOCK_OFFSET.labels(name).set((own_ms - each.offset_ms) / 1000)
        answered = {name: each for name, each in found.items() if each is not None}
        names = list(found)
        leading = next(iter(answered), "")
        # While a better source is silent, what it said goes on by the steady clock; a lesser one would be another time.
        if leading and (not self._leading or names.index(leading) <= names.index(self._leading)):
            self._leading = leading
            measured = answered.pop(leading)
            self._follow(measured, [own_ms, *(each.offset_ms for each in answered.values())])
        CLOCK_ERROR.set(self.error_ms / 1000)

    async def refresh(self) -> None:
        """Measures if the last measurement is old: for processes that have no loop while they wait."""
        held = self._held
        if held is None or self._steady() - held.at_ms > REFRESH_S * 1000:
            await self.measure()

    async def keep_fresh(self) -> None:
        """Measures again and again until it is cancelled."""
        while True:
            await asyncio.sleep(REFRESH_S if self.is_measured else RETRY_S)
            try:
                await self.measure()
            except Exception as error:  # noqa: BLE001 - without this loop the clock would drift unnoticed
                _log.warning(Event.DUTY_FAILED, duty="clock", error=f"{type(error).__name__}: {error}")

    async def _measure(self, source: Source) -> Measure | None:
        found: list[Measure] = []
        while len(found) < SAMPLES and (sample := await self._sample(source)):
            found.append(sample)
        return min(found, key=lambda each: each.error_ms, default=None)

    async def _sample(self, source: Source) -> Measure | None:
        asked_ms = self._steady()
        now_us = await source.now_us()
        answered_ms = self._steady()
        if now_us is None:
            return None
        half_ms = (answered_ms - asked_ms) / 2
        return Measure(now_us / 1000 - asked_ms - half_ms, half_ms, answered_ms)

    def _follow(self, measured: Measure, witnesses: Sequence[float]) -> None:
        held = self._held
        # A first measurement is compared with our own clock: it is all that knows of leaps before our time.
        before_ms = held.offset_ms if held else witnesses[0]
        leap_ms = abs(measured.offset_ms - before_ms)
        if held and leap_ms > FAR_MS and _are_against(measured.offset_ms, held.offset_ms, witnesses):
            self._contested_ms = leap_ms
            _log.warning(Event.CLOCK_LEAPT, leap_ms=round(measured.offset_ms - before_ms), is_followed=False)
            return
        if leap_ms > NOTICED_MS:
            self._doubts.append(_Doubt(leap_ms, self._steady() + self._memory_ms))
            _log.warning(Event.CLOCK_LEAPT, leap_ms=round(measured.offset_ms - before_ms), is_followed=True)
        self._held, self._contested_ms = measured, 0.0


def _are_against(measured_ms: float, held_ms: float, witnesses: Sequence[float]) -> bool:
    """True if most clocks are nearer to what was held than to what is measured now."""
    votes = [abs(each - held_ms) < abs(each - measured_ms) for each in witnesses]
    return 2 * sum(votes) > len(votes)
