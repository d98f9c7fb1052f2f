"""The shared clock of a process: what it follows, and how sure it says to be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.deployment import reference_clock
from gateway.deployment.reference_clock import UNMEASURED_MS, ReferenceClock
from gateway.deployment.time_sources import sources_of
from gateway.runtime.settings import Settings
from tests.support.attack import until
from tests.support.logs import lines_of, logged
from tests.support.metrics import metric

HOUR_MS = 3_600_000
START_MS = 1_800_000_000_000


@dataclass
class Machine:
    """A process' two clocks, and the one that it can ask; all stand still unless they are moved."""

    wall_ms: int = START_MS
    steady_ms: float = 5_000.0
    asked: dict[str, int | None] = field(default_factory=lambda: {"redis": START_MS})

    def clock(self, *names: str) -> ReferenceClock:
        sources = [Asked(self, name) for name in names or ("redis",)]
        return ReferenceClock(sources, memory_s=600, wall=lambda: self.wall_ms, steady=lambda: self.steady_ms)

    def wait(self, seconds: int) -> None:
        self.wall_ms += seconds * 1000
        self.steady_ms += seconds * 1000
        self.asked = {name: each and each + seconds * 1000 for name, each in self.asked.items()}


@dataclass
class Asked:
    """A clock elsewhere."""

    machine: Machine
    name: str

    async def now_us(self) -> int | None:
        now_ms = self.machine.asked[self.name]
        return None if now_ms is None else now_ms * 1000


async def test_F19_a_clock_that_is_wrong_decides_nothing():
    """A process a minute ahead tells the shared time, and how far ahead it is; setting its clock moves neither."""
    machine = Machine(wall_ms=START_MS + 60_000)
    clock = machine.clock()
    assert (START_MS + 60_000, UNMEASURED_MS, False) == (clock(), clock.error_ms, clock.is_measured)
    await clock.measure()
    assert (START_MS, 60_000, True) == (clock(), clock.offset_ms, clock.is_measured)
    assert 60.0 == metric("scoregate_clock_offset_seconds", source="redis")
    assert clock.error_ms / 1000 == metric("scoregate_clock_error_seconds") > 0
    machine.wall_ms -= HOUR_MS
    await clock.measure()
    assert (START_MS, 60_000 - HOUR_MS) == (clock(), clock.offset_ms)
    machine.wait(10)
    assert START_MS + 10_000 == clock()


async def test_F19_what_a_clock_was_off_at_the_start_is_in_doubt_while_runs_of_before_may_come():
    """Nobody knows which of the two was set before this process began; after the longest run it does not matter."""
    machine = Machine(wall_ms=START_MS - 60_000)
    clock = machine.clock()
    await clock.measure()
    assert 60_000 <= clock.error_ms < 60_010
    machine.wait(601)
    await clock.measure()
    assert clock.error_ms < 10


async def test_F19_a_clock_that_leaps_is_followed_if_that_is_likely_and_always_doubted():
    """A minute is followed, an hour away from our own clock is not; both are told as doubt, until they are over."""
    machine = Machine()
    clock = machine.clock()
    await clock.measure()
    machine.asked["redis"] = START_MS + HOUR_MS
    await clock.measure()
    assert (START_MS, True) == (clock(), clock.error_ms >= HOUR_MS)
    machine.asked["redis"] = START_MS
    await clock.measure()
    assert clock.error_ms < 10
    machine.asked["redis"] = START_MS - 60_000
    await clock.measure()
    assert (START_MS - 60_000, True) == (clock(), 60_000 <= clock.error_ms < 60_010)


async def test_F19_a_shared_clock_that_is_set_right_is_followed():
    """It was an hour ahead, and comes back to where our own clock stands: runs of before are in doubt by that hour."""
    machine = Machine(wall_ms=START_MS - HOUR_MS)
    clock = machine.clock()
    await clock.measure()
    assert START_MS == clock()
    machine.asked["redis"] = START_MS - HOUR_MS
    await clock.measure()
    assert (START_MS - HOUR_MS, True) == (clock(), clock.error_ms >= HOUR_MS)


async def test_F19_the_database_decides_and_goes_on_deciding_while_it_is_away():
    """Redis is a witness beside it, whatever it says; alone it is better than nothing."""
    machine = Machine(asked={"database": START_MS, "redis": START_MS + 30_000})
    clock = machine.clock("database", "redis")
    await clock.measure()
    assert START_MS == clock()
    machine.asked["database"] = None
    machine.wait(100)
    await clock.measure()
    assert (START_MS + 100_000, True) == (clock(), 50 <= clock.error_ms < 60)
    late = machine.clock("database", "redis")
    await late.measure()
    assert (START_MS + 130_000, True) == (late(), late.error_ms >= 30_000)


async def test_F19_a_database_that_leaps_against_all_others_is_not_followed():
    """Our own clock and Redis stand against it; where Redis agrees with it, it is ours that is alone."""
    machine = Machine(asked={"database": START_MS, "redis": START_MS})
    clock = machine.clock("database", "redis")
    await clock.measure()
    machine.asked["database"] = START_MS + HOUR_MS
    await clock.measure()
    assert (START_MS, True) == (clock(), clock.error_ms >= HOUR_MS)
    machine.asked["redis"] = START_MS + HOUR_MS
    await clock.measure()
    assert START_MS + HOUR_MS == clock()


async def test_F19_each_leap_is_logged_with_its_length_and_whether_it_is_followed():
    """From what was expected, forward or back; a clock that goes as it should is none."""
    machine = Machine(wall_ms=START_MS - 60_000)
    clock = machine.clock()
    with logged(reference_clock) as lines:
        await clock.measure()
        machine.wait(100)
        await clock.measure()
        machine.asked["redis"] = START_MS + 100_000 + 2 * HOUR_MS
        await clock.measure()
        machine.asked["redis"] = START_MS + 40_000
        await clock.measure()
    leaps = [(60_000, True), (2 * HOUR_MS, False), (-60_000, True)]
    assert [
        {"leap_ms": leap_ms, "is_followed": is_followed, "log_level": "warning"}
        for leap_ms, is_followed in leaps
    ] == lines_of(lines, "clock_leapt")


async def test_F19_a_clock_is_asked_again_whatever_came_of_it(monkeypatch: pytest.MonkeyPatch):
    """What nobody foresaw is logged as a failed duty; then the clock is measured as if nothing had been."""
    monkeypatch.setattr(reference_clock, "RETRY_S", 0.0)
    machine = Machine(wall_ms=START_MS + 60_000)
    clock, measure, times = machine.clock(), ReferenceClock.measure, 0

    async def fail_once(self: ReferenceClock) -> None:
        nonlocal times
        times += 1
        if times == 1:
            raise ZeroDivisionError("one of ours")
        await measure(self)

    monkeypatch.setattr(ReferenceClock, "measure", fail_once)

    async def is_right() -> bool:
        return clock() == START_MS

    with logged(reference_clock) as lines:
        keeping = asyncio.create_task(clock.keep_fresh())
        await until(is_right)
        keeping.cancel()
        await asyncio.wait([keeping])
    failed = {"duty": "clock", "error": "ZeroDivisionError: one of ours", "log_level": "warning"}
    assert [failed] == lines_of(lines, "duty_failed")


async def test_F19_a_process_without_a_loop_measures_when_it_is_due():
    """A command that runs for long asks again after a few seconds, and not for each thing that it does."""
    machine = Machine()
    clock = machine.clock()
    for seconds, expected_ms in ((0, START_MS), (4, START_MS), (2, START_MS + 60_000)):
        machine.wait(seconds)
        await clock.refresh()
        assert expected_ms == clock() - (machine.wall_ms - START_MS)
        machine.asked["redis"] = machine.wall_ms + 60_000


@pytest.mark.parametrize(
    ("url", "expected"),
    [("postgresql:///scores", ["database", "redis"]), ("sqlite:////srv/ledger.db", ["redis"])],
)
def test_F19_the_clock_of_a_database_goes_before_that_of_redis(url: str, expected: list[str]):
    """The first one decides, and is the same for all processes; the other stands in for it. SQLite has none."""
    nothing: Any = None  # none of them is asked here
    sources = sources_of(Settings(ledger_url=SecretStr(url)), nothing, nothing)
    assert expected == [each.name for each in sources]
