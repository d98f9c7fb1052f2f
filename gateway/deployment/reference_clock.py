"""The time that all processes of a deployment share, however their own clocks are set.

A process keeps the offset between the shared clock and its own steady one (time since boot, which nobody
sets), so its wall clock decides nothing. It also knows the error of that offset, and decisions by time allow
for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from gateway.runtime.background import rest
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.telemetry import CLOCK_ERROR, CLOCK_OFFSET, Event, logger

REFRESH_S: Final = 5.0
"""Time between two measurements."""

RETRY_S: Final = 0.5
"""Time between two measurements while no source has ever answered."""

SAMPLES: Final = 4
"""Samples of a measurement. The one with the shortest round trip counts (as in RFC 5905, section 10)."""

UNMEASURED_MS: Final = 600_000
"""The error of a clock that was never compared."""

FAR_MS: Final = 300_000
"""A shared clock that leaps farther is followed only if that brings it nearer to the other clocks."""

NOTICED_MS: Final = 100
"""The least leap that adds to the error, since runs opened before it are still to be submitted."""

MEMORY_S: Final = 86_400
"""Time for which a leap adds to the error, unless the longest run of the boards sets it."""

DRIFT: Final = 0.0005
"""The drift of a steady clock per unit of time: 500 ppm, the maximum slew of NTP (RFC 5905)."""

_log = logger()


class Source(Protocol):
    """A clock that every process can read."""

    name: str

    async def now_us(self) -> int | None:
        """Return its time (Unix microseconds), None if it does not answer. Fails open."""
        ...


class Measure(NamedTuple):
    """A source's lead over the steady clock (ms), the error of that, and when it was measured (steady ms)."""

    offset_ms: float
    error_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True)
class _Doubt:
    size_ms: float
    before_ms: float
    until_ms: float

    def at(self, offset_ms: float) -> float:
        """Return how far times from before the leap may be off at this offset (ms): later leaps add to it."""
        return max(self.size_ms, abs(offset_ms - self.before_ms))


_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_ms() -> float:
    """Return the milliseconds since boot, with sleep where the system counts it. Nobody sets this clock."""
    return time.clock_gettime_ns(_STEADY) / 1e6


class ReferenceClock:
    """A `Clock` that follows the first source that answers; without any, the own clock with a large error."""

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
        self._followed: Measure | None = None
        self._leading = ""
        self._contested_ms = 0.0
        self._doubts: list[_Doubt] = []

    def __call__(self) -> int:
        """Return the shared time (Unix ms)."""
        return self._wall() if self._followed is None else int(self._steady() + self._followed.offset_ms)

    def earliest(self) -> int:
        """Return the earliest possible shared time (Unix ms), by which lateness is judged."""
        return self() - self.error_ms

    @property
    def is_measured(self) -> bool:
        """Return whether a source has ever answered."""
        return self._followed is not None

    @property
    def error_ms(self) -> int:
        """Return the error of this clock (ms), including leaps of the last time."""
        if self._followed is None:
            return UNMEASURED_MS
        now_ms = self._steady()
        leaps_ms = self._leaps_ms(now_ms, self._followed.offset_ms) if self._doubts else 0.0
        drift_ms = (now_ms - self._followed.at_ms) * DRIFT
        return round(self._followed.error_ms + drift_ms + max(leaps_ms, self._contested_ms)) + 1

    def _leaps_ms(self, now_ms: float, offset_ms: float) -> float:
        self._doubts = [doubt for doubt in self._doubts if doubt.until_ms > now_ms]
        return max((doubt.at(offset_ms) for doubt in self._doubts), default=0.0)

    @property
    def offset_ms(self) -> int:
        """Return the own wall clock's lead over the shared one (ms)."""
        return self._wall() - self()

    async def measure(self) -> None:
        """Measure every source once, and follow the best that answers."""
        measures = {source.name: await self._measure(source) for source in self._sources}
        own_ms = self._wall() - self._steady()
        answered = {name: measure for name, measure in measures.items() if measure is not None}
        for name, measure in answered.items():
            CLOCK_OFFSET.labels(name).set((own_ms - measure.offset_ms) / 1000)
        names = list(measures)
        leading = next(iter(answered), "")
        # While a better source is silent, the steady clock continues it. A lesser one would be another time.
        if leading and (not self._leading or names.index(leading) <= names.index(self._leading)):
            self._leading = leading
            measured = answered.pop(leading)
            self._follow(measured, [own_ms, *(measure.offset_ms for measure in answered.values())])
        CLOCK_ERROR.set(self.error_ms / 1000)

    async def refresh(self) -> None:
        """Measure if the last measurement is old. This is for processes without a loop."""
        followed = self._followed
        if followed is None or self._steady() - followed.at_ms > REFRESH_S * 1000:
            await self.measure()

    async def keep_fresh(self) -> None:
        """Measure every REFRESH_S until cancelled."""
        while True:
            await rest(REFRESH_S if self.is_measured else RETRY_S)
            try:
                await self.measure()
            except Exception as error:  # noqa: BLE001 - without this loop the clock would drift unnoticed
                _log.warning(Event.DUTY_FAILED, duty="clock", error=f"{type(error).__name__}: {error}")

    async def _measure(self, source: Source) -> Measure | None:
        samples: list[Measure] = []
        while len(samples) < SAMPLES and (sample := await self._sample(source)):
            samples.append(sample)
        return min(samples, key=lambda measure: measure.error_ms, default=None)

    async def _sample(self, source: Source) -> Measure | None:
        begun_ms = self._steady()
        now_us = await source.now_us()
        answered_ms = self._steady()
        if now_us is None:
            return None
        half_ms = (answered_ms - begun_ms) / 2
        return Measure(now_us / 1000 - begun_ms - half_ms, half_ms, answered_ms)

    def _follow(self, measured: Measure, witnesses: Sequence[float]) -> None:
        followed = self._followed
        # The first measurement is compared with the own clock: only that can show a leap before this process.
        before_ms = followed.offset_ms if followed else witnesses[0]
        leap_ms = abs(measured.offset_ms - before_ms)
        if followed and leap_ms > FAR_MS and _are_against(measured.offset_ms, followed.offset_ms, witnesses):
            self._contested_ms = leap_ms
            _log.warning(Event.CLOCK_LEAPT, leap_ms=round(measured.offset_ms - before_ms), is_followed=False)
            return
        if leap_ms > NOTICED_MS:
            self._doubts.append(_Doubt(leap_ms, before_ms, self._steady() + self._memory_ms))
            _log.warning(Event.CLOCK_LEAPT, leap_ms=round(measured.offset_ms - before_ms), is_followed=True)
        self._followed, self._contested_ms = measured, 0.0


def _are_against(measured_ms: float, followed_ms: float, witnesses: Sequence[float]) -> bool:
    """Return whether most clocks are nearer to the followed offset than to the measured one."""
    votes = [abs(witness_ms - followed_ms) < abs(witness_ms - measured_ms) for witness_ms in witnesses]
    return 2 * sum(votes) > len(votes)
