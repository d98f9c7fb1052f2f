"""Leases of stewards beside a model: clocks that leap, pauses, deaths, a database that is slow or away."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import Counter as Metric
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from gateway.ledger.leases import NOBODY, Lease, fenced, lane_lease, lease_holders
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.runtime.lanes import lane_of
from gateway.runtime.telemetry import LEASES_HELD, LEASES_LOST, LEASES_TAKEN_OVER, REGISTRY
from gateway.steward.fencing import FencedLedger
from gateway.steward.leases import HANDED_OVER, LEASE_NAMES, DutyLease, StewardLeases
from policies.errors import LeaseLost, LedgerUnavailable
from tests.support.ledger import ledger_in_memory

T = TypeVar("T")

NAMES = ("agenda", "dispatch", "expiring", "seals", *map(lane_lease, range(8)))
LEASE_S = 6.0
TURN_MS = 1_500


class Memory:
    """A ledger in memory, which may be slow or away, and whose operations end before they are waited for."""

    def __init__(self, pass_ms: Callable[[float], None] = lambda _: None) -> None:
        self.database = ledger_in_memory()
        self.pass_ms = pass_ms
        self.delays_ms: list[float] = []
        self.is_away = False
        self.is_refusing = False

    async def write(self, work: Operation[T]) -> T:
        return await self._perform(work)

    async def read(self, work: Operation[T], *_: Any) -> T:
        return await self._perform(work)

    async def _perform(self, work: Operation[T]) -> T:
        if self.is_away:
            raise LedgerUnavailable
        if self.delays_ms:
            self.pass_ms(self.delays_ms.pop())
        self.database.execute("BEGIN")
        try:
            result: T = await work(self)  # type: ignore[arg-type]
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")
        return result

    async def rows(self, query: Query, /, **values: Any) -> list[Row]:
        return self.database.execute(query.sqlite, query.values(values)).fetchall()

    async def run(self, query: Query, /, **values: Any) -> int:
        return self.database.execute(query.sqlite, query.values(values)).rowcount


class World:
    """Some stewards, the true time, and a shared clock that may be off."""

    def __init__(self, names: tuple[str, ...] = NAMES) -> None:
        self.now_ms = 1_000_000.0
        self.leap_ms = 0
        self.ledger: Any = Memory(self.advance)
        self.names = names
        self.stewards: dict[str, StewardLeases] = {}

    def advance(self, ms: float) -> None:
        self.now_ms += ms

    def start(self, name: str) -> StewardLeases:
        steward = StewardLeases(
            self.ledger,
            clock=lambda: int(self.now_ms) + self.leap_ms,
            lease_s=LEASE_S,
            steady=lambda: self.now_ms,
            names=self.names,
        )
        steward.is_kept = True
        self.stewards[name] = steward
        return steward

    def turn(self, *names: str) -> None:
        for name in names or tuple(self.stewards):
            do(self.stewards[name].turn())

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()
            self.advance(TURN_MS)

    def believed(self, name: str) -> set[str]:
        return {lease for lease in self.names if self.stewards[name].held(lease)}

    def shares(self) -> list[int]:
        return sorted(len(self.believed(name)) for name in self.stewards)

    def holders(self) -> dict[str, tuple[str, ...]]:
        holders: dict[str, tuple[str, ...]] = do(self.ledger.read(lease_holders))
        return holders

    def can_write(self, lease: Lease) -> bool:
        try:
            do(self.ledger.write(fenced(lease, nothing)))
        except LeaseLost:
            return False
        return True


async def nothing(_: Transaction) -> None:
    """Do nothing, if that is allowed."""


def do(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of what never has to wait."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.ledger.database.close()


def counted(metric: Metric, *labels: str) -> float:
    child = metric.labels(*labels) if labels else metric
    return child._value.get()  # type: ignore[no-any-return]


class Stewards(RuleBasedStateMachine):
    """Stewards that come, go, die, sleep and wake while clocks leap and the database falters."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.has_leapt = False
        self.asleep: set[str] = set()
        self.known: dict[str, Lease] = {}
        self.epochs: Counter[str] = Counter()
        self.count = 0

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self._converge()
            self.world.ledger.database.close()

    @precondition(lambda self: len(self.world.stewards) < 4)
    @rule()
    def start(self) -> None:
        self.count += 1
        self.world.start(str(self.count))

    @rule(ms=st.integers(1, 4_000))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @precondition(lambda self: self.world.stewards)
    @rule(data=st.data(), delays=st.lists(st.integers(0, 3_000), max_size=4), is_away=st.booleans())
    def turn(self, data: Any, delays: list[float], *, is_away: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.stewards)))
        if name in self.asleep:
            return
        self.world.ledger.delays_ms, self.world.ledger.is_away = delays, is_away
        with suppress(LedgerUnavailable):
            do(self.world.stewards[name].turn())
        self.world.ledger.delays_ms, self.world.ledger.is_away = [], False

    @rule()
    def turn_all(self) -> None:
        for name in sorted(self.world.stewards.keys() - self.asleep):
            do(self.world.stewards[name].turn())
        self.world.advance(TURN_MS)

    @precondition(lambda self: self.world.stewards)
    @rule(data=st.data(), fate=st.sampled_from(["die", "stop", "sleep", "wake", "wake"]))
    def meet(self, data: Any, fate: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.stewards)))
        if fate == "sleep":
            self.asleep.add(name)
        elif fate == "wake":
            self.asleep.discard(name)
        else:
            steward = self.world.stewards.pop(name)
            self.asleep.discard(name)
            if fate == "stop":
                do(steward.give_up())

    @rule(ms=st.sampled_from([-3_600_000, -9_000, 9_000, 3_600_000]))
    def leap(self, ms: int) -> None:
        self.world.leap_ms += ms
        self.has_leapt = True

    @precondition(lambda self: self.world.stewards)
    @rule(data=st.data())
    def begin_work(self, data: Any) -> None:
        """A duty begins under a lease, and writes whenever it comes to it."""
        steward = self.world.stewards[data.draw(st.sampled_from(sorted(self.world.stewards)))]
        name = data.draw(st.sampled_from(NAMES))
        if lease := steward.held(name):
            assert lease.epoch >= self.epochs[name]
            if lease.epoch > self.epochs[name]:
                self.epochs[name] = lease.epoch
                self.known[f"{name} {lease.epoch}"] = lease

    @invariant()
    def what_is_written_is_written_by_one(self) -> None:
        for name in NAMES:
            leases = [steward.held(name) for steward in self.world.stewards.values()]
            believed = [lease for lease in leases if lease]
            assert 1 >= sum(self.world.can_write(lease) for lease in believed)
            if not self.has_leapt:
                assert 1 >= len(believed)

    @invariant()
    def whoever_was_followed_writes_no_more(self) -> None:
        for lease in self.known.values():
            if lease.epoch < self.epochs[lease.name]:
                assert not self.world.can_write(lease)

    def _converge(self) -> None:
        """Within seconds everybody who lives has a fair share, and nothing is left over."""
        self.asleep.clear()
        if not self.world.stewards:
            return
        self.world.turns(12)
        self.world.turn()
        live = len(self.world.stewards)
        for kind in ("lane", "duty"):
            names = {name for name in NAMES if name.startswith("lane:") == (kind == "lane")}
            shares = [len(self.world.believed(name) & names) for name in self.world.stewards]
            assert len(names) == sum(shares)
            assert -(-len(names) // live) >= max(shares)


TestStewards = Stewards.TestCase
TestStewards.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_steward_alone_has_everything_at_once(world: World):
    """On a fresh ledger, and where another stopped in order, it waits for nothing."""
    first = world.start("first")
    world.turn()
    assert set(NAMES) == world.believed("first")
    assert frozenset(range(8)) == first.lanes_held()
    assert ("agenda", "dispatch", "expiring", "seals") == first.duties_held()
    do(first.give_up())
    assert set() == world.believed("first")
    del world.stewards["first"]
    world.start("second")
    world.turn()
    assert set(NAMES) == world.believed("second")


def test_every_lane_and_duty_has_a_lease():
    """What had none would be done by nobody, or by everybody."""
    assert {lane_lease(lane) for lane in range(256)} | set(DutyLease) == set(LEASE_NAMES)


def test_what_a_dead_steward_had_goes_on_within_ten_seconds(world: World):
    """Whenever in its time it died; and until its time is over, it is not taken for dead."""
    for renewed_ms in (0, 700, 1_499):
        world.start("dead")
        world.turns(2)
        if "living" not in world.stewards:
            world.start("living")
        world.turns(8)
        world.turn("dead")
        del world.stewards["dead"]
        died_ms = world.now_ms
        world.advance(renewed_ms)
        while world.believed("living") != set(NAMES):
            world.advance(TURN_MS)
            world.turn("living")
        assert 6_000 <= world.now_ms - died_ms <= 8_500


def test_a_new_steward_need_not_watch_one_that_died_long_ago(world: World):
    """Its row has expired by the shared clock, so the newcomer begins at once."""
    world.start("dead")
    world.turn()
    del world.stewards["dead"]
    world.advance(6_001)
    world.start("new")
    before = counted(LEASES_TAKEN_OVER)
    with capture_logs() as logs:
        world.turn("new")
    assert set(NAMES) == world.believed("new")
    assert len(NAMES) == counted(LEASES_TAKEN_OVER) - before
    assert [("steward_dead", len(NAMES))] == [(entry["event"], entry["leases"]) for entry in logs]


@pytest.mark.parametrize("leap_ms", [-3_600_000, 3_600_000])
def test_a_leap_of_the_shared_clock_neither_saves_the_dead_nor_stops_the_living(world: World, leap_ms: int):
    """Whoever is watched and does not renew is dead, whatever the clock says; all is shared again soon after."""
    for name in ("one", "two"):
        world.start(name)
    world.turns(4)
    world.leap_ms += leap_ms
    world.turns(8)
    assert [6, 6] == world.shares()
    del world.stewards["one"]
    world.leap_ms -= leap_ms
    world.turns(6)
    assert set(NAMES) == world.believed("two")


def test_a_shared_clock_that_stands_still_buries_nobody(world: World):
    """A row that says the same again would look as if nobody had renewed it."""
    for name in ("one", "two"):
        world.start(name)
    world.turns(4)
    before = counted(LEASES_TAKEN_OVER)
    for _ in range(8):
        world.leap_ms -= TURN_MS
        world.turns(1)
    assert ([6, 6], 0) == (world.shares(), counted(LEASES_TAKEN_OVER) - before)


def test_belief_ends_before_anybody_may_take_over(world: World):
    """A renewal counts from when it was begun, however long the database took over it."""
    steward = world.start("one")
    world.turn()
    world.ledger.delays_ms = [0, 4_900]
    world.turn()
    assert set(NAMES) == world.believed("one")
    world.advance(101)
    assert set() == world.believed("one") == {*steward.lanes_held()} == {*steward.duties_held()}
    world.ledger.is_away = True
    with pytest.raises(LedgerUnavailable):
        world.turn()
    world.ledger.is_away = False
    world.turn()
    assert set(NAMES) == world.believed("one")


def test_a_slow_database_does_not_end_belief_that_it_has_just_renewed(world: World):
    """What is renewed is good while the rest of the turn takes its time, or two slow stewards would never work."""
    steward = world.start("one")
    world.turn()
    believed = []

    def pass_ms(ms: float) -> None:
        believed.append(len(world.believed("one")))
        world.advance(ms)

    world.ledger.pass_ms = pass_ms
    for _ in range(3):
        world.advance(1_000)
        world.ledger.delays_ms = [2_600, 2_600]
        do(steward.turn())
    # Before each renewal the last one is over; while the table is read, this one is good.
    assert [len(NAMES), len(NAMES), 0, len(NAMES), 0, len(NAMES)] == believed


def test_whoever_wakes_is_another_and_what_it_had_counts_no_more(world: World):
    """Its row is gone, so it begins anew under another id, and a write under what it held is refused."""
    sleeper = world.start("sleeper")
    world.turn()
    held = [sleeper.held(name) for name in NAMES]
    before, was = counted(LEASES_LOST, "lane"), sleeper.steward
    world.start("other")
    for _ in range(5):
        world.advance(TURN_MS)
        world.turn("other")
    assert set(NAMES) == world.believed("other")
    assert {2} == {lease.epoch for name in NAMES if (lease := world.stewards["other"].held(name))}
    assert set() == world.believed("sleeper")
    assert [] == [lease for lease in held if lease and world.can_write(lease)]
    with capture_logs() as logs:
        world.turn("sleeper")
    assert was != sleeper.steward
    assert 8 == counted(LEASES_LOST, "lane") - before
    assert [("leases_lost", 12)] == [(entry["event"], entry["leases"]) for entry in logs]
    world.turns(4)
    assert [6, 6] == world.shares()
    assert [] == [lease for lease in held if lease and world.can_write(lease)]


def test_whoever_was_away_itself_goes_by_what_it_sees(world: World):
    """After an outage the first to come back does not bury those who are a moment later."""
    for name in ("one", "two"):
        world.start(name)
    world.turns(4)
    ids = {steward.steward for steward in world.stewards.values()}
    world.advance(60_000)
    world.turn("one")
    world.turn("two")
    assert [6, 6] == world.shares()
    assert ids == {steward.steward for steward in world.stewards.values()}


def test_a_steward_that_renews_in_time_is_not_buried(world: World):
    """Between the look and the funeral it renewed its row, and keeps all that it has."""
    alive = world.start("alive")
    world.turn()
    other = world.start("other")
    world.turn("other")
    world.advance(6_000)
    table = {alive.steward: alive._expires_at_ms}
    do(alive._renew())
    do(other._claim(do(world.ledger.read(_table)), table))
    assert len(NAMES) == len(world.holders()[alive.steward])


async def _table(tx: Transaction) -> Any:
    from gateway.ledger.leases import lease_table  # noqa: PLC0415 - read late, as a turn does

    return await lease_table(tx)


def test_newcomers_get_their_share_in_small_steps(world: World):
    """Few lanes stand still at a time, and what is in use is given away once that has ended."""
    large = World((*"abcdefghij", *map(lane_lease, range(256))))
    first = large.start("first")
    large.turn()
    with first.working("lane:7") as is_ours:
        assert is_ours
        large.start("second")
        large.turn("second")
        steps = []
        for _ in range(6):
            before = len(large.believed("first"))
            large.turns(1)
            steps.append(before - len(large.believed("first")))
        assert all(0 <= step <= 2 * HANDED_OVER for step in steps)
        assert [133, 133] == large.shares()
        large.start("third")
        large.turns(6)
        assert [86, 90, 90] == large.shares()
        assert first.held("lane:7")
    large.ledger.database.close()


def test_work_in_progress_is_not_given_away(world: World):
    """The last lease of its kind is in use: it goes when that has ended, and no new work begins under it."""
    one = World(("lane:0", "lane:1"))
    first = one.start("first")
    one.turn()
    with first.working("lane:0"), first.working("lane:1"):
        one.start("second")
        one.turns(3)
        assert set() == one.believed("second")
        assert 1 == len(one.believed("first"))
        [leaving] = {"lane:0", "lane:1"} - one.believed("first")
        with first.working(leaving) as is_ours:
            assert not is_ours
    one.turns(2)
    assert [1, 1] == one.shares()
    assert {leaving} == one.believed("second")
    one.ledger.database.close()


@pytest.mark.parametrize("busy", ["lane:0", "lane:1"])
def test_lanes_that_stand_still_are_given_away_first(world: World, busy: str):
    """Work goes on where it is under way, and a newcomer begins at once with the rest."""
    two = World(("lane:0", "lane:1"))
    first = two.start("first")
    two.turn()
    with first.working(busy):
        two.start("second")
        two.turns(3)
        assert ({busy}, {"lane:0", "lane:1"} - {busy}) == (two.believed("first"), two.believed("second"))
    two.ledger.database.close()


def test_a_write_is_refused_once_another_has_the_lease(world: World):
    """Under no lease, too, and under an earlier one of the same name; the loss is noted and the rest goes on."""
    steward = world.start("one")
    fence = FencedLedger(world.ledger, steward)
    world.turn()
    with steward.working("seals"):
        do(fence.write(nothing))
        world.ledger.database.execute("UPDATE leases SET epoch = epoch + 1 WHERE name = 'seals'")
        before = counted(LEASES_LOST, "duty")
        with pytest.raises(LeaseLost):
            do(fence.write(nothing))
        assert 1 == counted(LEASES_LOST, "duty") - before
        assert set(NAMES) - {"seals"} == world.believed("one")
        world.turn()
        assert set(NAMES) == world.believed("one")
        with pytest.raises(LeaseLost):  # what began under the old lease does not go on under the new one
            do(fence.write(nothing))
    with pytest.raises(LeaseLost):
        do(fence.write(nothing))
    with steward.working("seals"):
        do(fence.write(nothing))
    with pytest.raises(LeaseLost):  # what comes after a round has no lease
        do(fence.write(nothing))
    steward.is_kept = False
    do(fence.write(nothing))


def test_a_board_is_left_to_whoever_has_its_lane(world: World):
    """Of two stewards one does a board's duties, and the other does nothing there."""
    stewards = [world.start("one"), world.start("two")]
    world.turns(4)
    boards = [name for name in map(str, range(500)) if lane_of(name) < 8]

    async def step() -> int:
        return 1

    done = [[do(steward.on_lane(board, step)()) for steward in stewards] for board in boards]
    assert {1} == set(map(sum, done))
    assert 0 < sum(first for first, _ in done) < len(boards)


async def test_tasks_keep_the_lease_of_whoever_began_them(world: World):
    """A task that outlives its round writes under that round's lease, and not under none."""
    steward = world.start("one")
    fence = FencedLedger(world.ledger, steward)
    world.turn()
    with steward.working("seals"):
        task = asyncio.create_task(fence.write(nothing))
    await task


async def test_work_begins_as_soon_as_there_is_a_lease(world: World):
    """A duty that waits for its next look does not wait it out when leases come."""
    steward = world.start("one")
    waiting = asyncio.create_task(steward.pause(60))
    await asyncio.sleep(0)
    await steward.turn()
    await asyncio.wait_for(waiting, 5)
    await steward.pause(0)


async def test_leases_are_kept_whatever_the_database_does(world: World, monkeypatch: pytest.MonkeyPatch):
    """An outage, and a bug, are logged, and the next turn has everything again."""
    steward = world.start("one")
    errors: list[Exception] = [KeyError("a bug"), LedgerUnavailable("away")]

    class Ledger:
        async def write(self, work: Operation[T]) -> T:
            if errors:
                raise errors.pop()
            return await world.ledger.write(work)  # type: ignore[no-any-return]

        async def read(self, work: Operation[T]) -> T:
            return await world.ledger.read(work)  # type: ignore[no-any-return]

    monkeypatch.setattr(steward, "_ledger", Ledger())
    monkeypatch.setattr(steward, "_lease_ms", 40.0)
    with capture_logs() as logs:
        keeping = asyncio.create_task(steward.keep())
        await asyncio.wait_for(steward.pause(60), 20)
        keeping.cancel()
    assert ["ledger_unavailable", "unexpected"] == [entry["event"] for entry in logs][:2]
    assert ("duty", "leases") == (logs[1]["place"], logs[1]["duty"])
    assert isinstance(logs[1]["exc_info"], KeyError)
    assert 8 == counted(LEASES_HELD, "lane")
    assert 4 == counted(LEASES_HELD, "duty")
    await steward.give_up()
    assert 0 == counted(LEASES_HELD, "lane") == counted(LEASES_HELD, "duty")


def test_who_has_what_is_told(world: World):
    """Each steward with its leases in order, and what nobody has."""
    first = world.start("first")
    world.turn()
    assert {first.steward: tuple(sorted(NAMES))} == world.holders()
    do(first.give_up())
    assert {NOBODY: tuple(sorted(NAMES))} == world.holders()


def test_a_ledger_in_memory_undoes_what_fails(world: World):
    """Else the fence of these tests would let through what it refuses."""

    async def half(_: Transaction) -> None:
        world.ledger.database.execute("INSERT INTO stewards VALUES ('half', 1)")
        raise LeaseLost

    with pytest.raises(LeaseLost):
        do(world.ledger.write(half))
    with pytest.raises(sqlite3.OperationalError):
        world.ledger.database.execute("COMMIT")
    assert {} == world.holders()


def test_leases_are_in_the_metrics_under_these_names():
    """An operator's alerts and the reference name them so."""
    text = generate_latest(REGISTRY).decode()
    for name in ("scoregate_leases_held", "scoregate_leases_taken_over_total", "scoregate_leases_lost_total"):
        assert f"# TYPE {name.removesuffix('_total')}" in text
