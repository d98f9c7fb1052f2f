"""The shared clock of a process: what it follows, and how sure it says to be."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import SecretStr

from gateway.deployment import reference_clock, time_sources
from gateway.deployment.reference_clock import UNMEASURED_MS, ReferenceClock
from gateway.deployment.time_sources import DatabaseTime, RedisTime, shared_clock, sources_of
from gateway.index.connection import connect
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from tests.support import boards
from tests.support.attack import until
from tests.support.logs import lines_of, logged
from tests.support.metrics import metric
from tests.support.ports import unserved_port
from tests.support.valkey import ValkeyServer

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


async def test_F19_leaps_of_one_way_add_up_and_those_there_and_back_do_not():
    """A time from before all of them may be off by all that the clock moved since, until runs of before are over."""
    machine = Machine()
    clock, seen = machine.clock(), []
    await clock.measure()
    for seconds in (60, 150, 90, 60, 0):
        machine.asked["redis"] = machine.wall_ms + seconds * 1000
        machine.wait(1)
        await clock.measure()
        seen.append(clock.error_ms // 1000)
    machine.wait(601)
    await clock.measure()
    assert ([60, 150, 90, 90, 150], 0) == (seen, clock.error_ms // 1000)


async def test_F19_the_shortest_of_four_round_trips_tells_the_time_to_half_of_itself():
    """The time is that of the middle of a round trip, so half of it is the error; a slow answer spoils no quick one."""
    machine, trips_ms = Machine(), [80, 10, 40, 200]

    class Slow(Asked):
        async def now_us(self) -> int:
            trip_ms = trips_ms.pop(0)
            machine.wall_ms, machine.steady_ms = machine.wall_ms + trip_ms, machine.steady_ms + trip_ms
            return (START_MS + int(machine.steady_ms) - 5_000 - trip_ms // 2) * 1000

    clock = ReferenceClock(
        [Slow(machine, "redis")], wall=lambda: machine.wall_ms, steady=lambda: machine.steady_ms
    )
    await clock.measure()
    assert (START_MS + 330, 6, []) == (clock(), clock.error_ms, trips_ms)
    assert START_MS + 330 - 6 == clock.earliest()


class Hanging:
    """A ledger that does not answer."""

    async def read(self, work: Any) -> Any:
        await asyncio.Event().wait()


class Failing:
    """A ledger that is not there."""

    async def read(self, work: Any) -> Any:
        raise LedgerUnavailable


async def test_F19_a_clock_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch):
    """Neither one that is not there nor one that says nothing: it has no time, and others are asked."""
    monkeypatch.setattr(time_sources, "TIMEOUT_S", 0.02)
    silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with unserved_port() as nobody:
        clients = [connect(f"redis://127.0.0.1:{each}/0", timeout_ms=5_000) for each in (port, nobody)]
        sources = [DatabaseTime(Hanging()), DatabaseTime(Failing()), *map(RedisTime, clients)]  # type: ignore[arg-type]
        async with asyncio.timeout(4):
            assert [None] * 4 == [await source.now_us() for source in sources]
        for client in clients:
            await client.aclose()
    silent.close()


async def test_F19_a_shared_clock_is_measured_before_it_is_used_and_doubts_as_long_as_runs_last(
    valkey: ValkeyServer, tmp_path: Path
):
    """It remembers leaps for the longest run of any board and the minute in which a run may come; a day without boards."""
    settings, nothing = Settings(redis_url=valkey.url), cast("Any", None)  # SQLite has no clock to ask
    client = connect(valkey.url, timeout_ms=5_000)
    tiny = boards.board(tmp_path / "policies")
    lives_s = (600, 7_200, 60)
    several = [
        replace(tiny, policy=tiny.policy.model_copy(update={"run_lifetime_s": life_s})) for life_s in lives_s
    ]
    clocks = [await shared_clock(settings, nothing, client, each) for each in (several, [])]
    await client.aclose()
    assert [True, True] == [clock.is_measured for clock in clocks]
    assert [7_260_000, 86_400_000] == [clock._memory_ms for clock in clocks]


@pytest.mark.parametrize(
    ("url", "expected"),
    [("postgresql:///scores", ["database", "redis"]), ("sqlite:////srv/ledger.db", ["redis"])],
)
def test_F19_the_clock_of_a_database_goes_before_that_of_redis(url: str, expected: list[str]):
    """The first one decides, and is the same for all processes; the other stands in for it. SQLite has none."""
    nothing: Any = None  # none of them is asked here
    sources = sources_of(Settings(ledger_url=SecretStr(url)), nothing, nothing)
    assert expected == [each.name for each in sources]
