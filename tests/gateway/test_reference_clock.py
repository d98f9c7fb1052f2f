"""The shared clock of a process: what it follows, and how sure it says to be."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.reference_clock import UNMEASURED_MS, ReferenceClock
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
