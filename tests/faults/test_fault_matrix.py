"""A fault at each numbered step of a run's way: what the client is told, and what is true once all is well again.

Rows are points of `gateway.runtime.failpoints`; a process that is killed there is the matter of `test_crashes.py`. Here it fails
or stands still, Redis is stopped, killed or emptied under it, or its ledger refuses. On SQLite every point meets every
fault; on PostgreSQL those do that are in the ledger's own code, or on either side of one of its commits. A PostgreSQL that
is itself killed, stopped or cut off is the matter of `test_postgres_steps.py`. In a thorough run there are two of each part,
and the second ones go on where the first ones failed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from gateway.runtime import failpoints
from gateway.runtime.failpoints import Point, Unforeseen, action_of, arm
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.harness import Answer, free_port
from tests.support.stores import Store, on_both_if_thorough
from tests.support.thorough import IS_THOROUGH, thoroughly
from tests.support.valkey import ValkeyServer, running_valkey
from tests.support.world import (
    LEASE_S,
    World,
    a_world,
    dispatch_apart,
    empty,
    impatient,
    kill,
    mend,
    overtaken,
    stop,
    work_apart,
)

ANSWER_WITHIN_S = 10
"""An answer that takes this long came by nobody's deadline, even on a slow machine: Redis gets 0.1 s here a call."""

on_sqlite = pytest.mark.parametrize("database_server", ["sqlite"], indirect=True)


def on_each(points: Iterable[Point], on_postgres: Collection[Point]) -> pytest.MarkDecorator:
    """Has a test run with every point on SQLite, and with these on PostgreSQL."""
    cases = [("sqlite", point) for point in points] + [("postgres", point) for point in on_postgres]
    return pytest.mark.parametrize(("database_server", "point"), cases, indirect=["database_server"])


BUG = (500, "internal-error")
REDUCED = (503, "temporary-reduced-capacity")
ACCEPTED = (202, "")


@pytest.fixture(scope="module")
def own_valkey() -> Iterator[ValkeyServer]:
    with running_valkey() as server:
        yield server


@pytest.fixture
async def world(
    tmp_path: Path, own_valkey: ValkeyServer, sandbox: Sandbox, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    impatient(monkeypatch)
    boards.write_board(tmp_path / "policies", windows=["alltime", "daily"])
    with own_valkey.client() as client:
        client.flushall()
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=own_valkey.url,
        redis_timeout_ms=100,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
        ledger_url=store.url,
    )
    async with a_world(settings, sandbox, own_valkey, has_two=IS_THOROUGH) as world:
        try:
            yield world
        finally:
            mend(own_valkey)


async def submit(world: World, player: str = "p1") -> tuple[str, Answer, Answer]:
    """The run, what its client is told at first, and what the same bytes are told afterwards."""
    run, request = world.honest(player)
    async with asyncio.timeout(ANSWER_WITHIN_S):
        first = await world.harness.send(request)
    return run.id, first, await world.beside.send(request)


# Point -> was it stored when it failed, so that the same bytes get the stored answer
EDGE = {
    Point.BEFORE_ADMIT: False,
    Point.BEFORE_APPEND: False,
    Point.INSIDE_APPEND: False,
    Point.AFTER_APPEND: True,
    Point.BEFORE_PEND: True,
    Point.BEFORE_ANSWER: True,
}
EDGE_IN_LEDGER = (
    Point.INSIDE_APPEND,
    Point.AFTER_APPEND,
    *thoroughly(Point.BEFORE_APPEND, Point.BEFORE_PEND),
)


@on_each(EDGE, EDGE_IN_LEDGER)
async def test_I10_an_edge_that_fails_at_a_step_takes_the_same_bytes_again(world: World, point: Point):
    """A failure that nobody foresaw is 500; what was stored by then is replayed, what was not is taken now."""
    arm(point, action_of("raise"))
    run, first, again = await submit(world)
    assert (*BUG, *ACCEPTED) == (first.status, first.problem, again.status, again.problem)
    assert EDGE[point] == ("Idempotency-Replayed" in again.headers)
    assert {run: "promoted"} == (await world.assert_whole()).states()


@on_each(EDGE, EDGE_IN_LEDGER)
async def test_I10_an_edge_that_stands_still_at_a_step_answers_all_the_same(world: World, point: Point):
    """The client that loses patience and sends the same bytes beside the first gets the same answer; one row."""
    run, request = world.honest()
    arm(point, action_of("stall:0.1"))
    answers = await asyncio.gather(world.harness.send(request), world.beside.send(request))
    assert [202, 202] == [answer.status for answer in answers]
    assert 1 == len({answer.raw for answer in answers})
    assert {run.id: "promoted"} == (await world.assert_whole()).states()


@on_sqlite
@pytest.mark.parametrize("action", ["raise", "stall:0.1"])
async def test_I10_a_ticket_that_was_lost_on_the_way_is_asked_for_again(world: World, action: str):
    """Nothing is stored when a run is opened: the player opens another."""
    token = await world.harness.new_player()
    arm(Point.AFTER_OPEN, action_of(action))
    first = await world.harness.post("/v1/boards/tiny/runs", {"build": boards.BUILD}, token)
    again = await world.beside.post("/v1/boards/tiny/runs", {"build": boards.BUILD}, token)
    assert (500 if action == "raise" else 201, 201) == (first.status, again.status)
    assert [] == (await world.assert_whole()).events


WORKER = (
    Point.AFTER_LEASE,
    Point.AFTER_VERDICT,
    Point.INSIDE_SETTLE,
    Point.AFTER_SETTLE,
    Point.AFTER_PROJECT,
)
WORKER_AT_COMMITS = (Point.INSIDE_SETTLE, *thoroughly(Point.AFTER_LEASE, Point.AFTER_SETTLE))
STEWARD = {Point.BEFORE_DISPATCH: 1, Point.AFTER_DISPATCH: 2}
"""Point -> jobs in RQ once a second round was made."""


@on_each(WORKER, WORKER_AT_COMMITS)
async def test_I11_a_worker_that_fails_at_a_step_leaves_one_verdict(world: World, point: Point):
    """Before it settled another judges the run; afterwards nobody does again."""
    run = await world.submitted()
    arm(point, action_of("raise"))
    # What fails from settling on is reported by the worker, which goes on to the others.
    is_reported = point in {Point.INSIDE_SETTLE, Point.AFTER_SETTLE, Point.AFTER_PROJECT}
    with nullcontext() if is_reported else pytest.raises(Unforeseen):
        await world.verify(run.id)
    history = await world.assert_whole()
    assert ["received", "pending"] == [event.from_state for event in history.events]
    assert {run.id: "promoted"} == history.states()


@on_each(WORKER, WORKER_AT_COMMITS)
async def test_I12_a_worker_that_stands_still_at_a_step_is_overtaken(world: World, point: Point):
    """It wakes up when another has judged its run, or was refused by its lock: one verdict all the same."""
    run = await world.submitted()
    assert 0 == await world.verify()  # the sandbox's child belongs to the thread that starts it

    async def overtake() -> None:
        world.harness.clock.shift(10 * LEASE_S)
        with suppress(LedgerUnavailable):
            await world.beside.verify(run.id, sandbox=world.sandbox)
        await world.steward_beside.project()

    await overtaken(point, lambda: work_apart(world, run.id), overtake())
    history = await world.assert_whole()
    assert ["received", "pending"] == [event.from_state for event in history.events]
    assert {run.id: "promoted"} == history.states()


@on_both_if_thorough
@pytest.mark.parametrize("point", STEWARD)
@pytest.mark.parametrize("action", ["raise", "stall"])
async def test_I15_a_steward_that_fails_or_stands_still_loses_no_work(
    world: World, point: Point, action: str
):
    """Work is queued twice at worst; both jobs are done, and there is one verdict."""
    run = await world.submitted()
    if action == "raise":
        arm(point, action_of("raise"))
        with pytest.raises(Unforeseen):
            await world.steward.dispatch()
        await world.steward_beside.dispatch()
        assert STEWARD[point] == len(world.queued())
    else:
        await overtaken(point, lambda: dispatch_apart(world), world.steward_beside.dispatch())
        assert 2 == len(world.queued())
    for job in world.queued():
        await world.verify(*job)
    history = await world.assert_whole()
    assert 2 == len(history.events)
    assert {run.id: "promoted"} == history.states()


REDIS = (
    Point.BEFORE_ADMIT,
    Point.BEFORE_APPEND,
    Point.BEFORE_PEND,
    Point.BEFORE_DISPATCH,
    Point.AFTER_DISPATCH,
    Point.AFTER_LEASE,
    Point.AFTER_SETTLE,
    Point.AFTER_PROJECT,
)


ORDINARILY = {
    (Point.BEFORE_PEND, kill),
    (Point.AFTER_SETTLE, kill),
    (Point.BEFORE_DISPATCH, empty),
    (Point.AFTER_SETTLE, empty),
}
"""Redis stops at each of the points; killed and emptied it is at these, and in a thorough run at each."""

EVERY_ON_SQLITE = [
    ("sqlite", point, fault)
    for point in REDIS
    for fault in (stop, kill, empty)
    if IS_THOROUGH or fault is stop or (point, fault) in ORDINARILY
]
SOME_ON_POSTGRES = [
    ("postgres", Point.BEFORE_PEND, kill),
    ("postgres", Point.AFTER_LEASE, empty),
    *thoroughly(("postgres", Point.BEFORE_APPEND, stop), ("postgres", Point.AFTER_SETTLE, stop)),
]


@pytest.mark.parametrize(
    ("database_server", "point", "fault"), EVERY_ON_SQLITE + SOME_ON_POSTGRES, indirect=["database_server"]
)
async def test_I01_I02_I04_redis_fails_on_either_side_of_a_commit(
    world: World, own_valkey: ValkeyServer, point: Point, fault
):
    """Stopped, killed or emptied at a step: 202 within the deadline, no error anywhere, and nothing missing at the end."""
    await world.submitted("before", points=3)
    arm(point, partial(fault, own_valkey))
    async with asyncio.timeout(ANSWER_WITHIN_S):
        run = await world.submitted(points=7)
        await world.steward.dispatch()
        await world.verify(run.id)
    mend(own_valkey)
    history = await world.assert_whole()
    assert ["promoted", "promoted"] == list(history.states().values())
    assert 4 == len(history.events)
    entries = await world.harness.get("/v1/boards/tiny/entries")
    assert [7, 3] == [entry["score"] for entry in entries.body["entries"]]


def sqlite_error(text: str, code: int) -> Exception:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


FAILURES = [
    ("sqlite", sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR)),
    ("sqlite", sqlite_error("database or disk is full", sqlite3.SQLITE_FULL)),
    ("sqlite", sqlite_error("attempt to write a readonly database", sqlite3.SQLITE_READONLY)),
    ("postgres", asyncpg.PostgresIOError("could not write to file")),
    ("postgres", asyncpg.DiskFullError("could not extend file: No space left on device")),
    ("postgres", asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction")),
    ("postgres", asyncpg.DeadlockDetectedError("deadlock detected")),
    ("postgres", asyncpg.AdminShutdownError("terminating connection due to administrator command")),
]
"""What a database raises when what is under it fails."""


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(("database_server", "failure"), FAILURES, indirect=["database_server"], ids=str)
async def test_I07_a_ledger_that_fails_inside_a_transaction_undoes_it(world: World, failure: Exception):
    """The edge says 503 and takes the same bytes afterwards; the worker's run is judged by the next one."""
    arm(Point.INSIDE_APPEND, partial(fail, failure))
    run, first, again = await submit(world)
    assert (*REDUCED, *ACCEPTED) == (first.status, first.problem, again.status, again.problem)
    assert "Idempotency-Replayed" not in again.headers
    arm(Point.INSIDE_SETTLE, partial(fail, failure))
    with pytest.raises(LedgerUnavailable):
        await world.verify(run)
    assert {run: "pending"} == (await world.history()).states()
    assert {run: "promoted"} == (await world.assert_whole()).states()


async def test_I09_a_lock_held_by_another_at_any_step_costs_time_and_nothing_else(world: World, store: Store):
    """Taken after admission, dispatch or lease: 503 or later; given back, the work goes on where it was."""
    with store.intruder() as intruder:
        arm(Point.BEFORE_APPEND, intruder.take)
        _, request = world.honest("other")
        assert 503 == (await world.harness.send(request)).status
        intruder.give_back()
        assert 202 == (await world.beside.send(request)).status

        arm(Point.AFTER_DISPATCH, intruder.take)
        with pytest.raises(LedgerUnavailable):
            await world.steward.dispatch()
        intruder.give_back()
        run = await world.submitted()

        arm(Point.AFTER_VERDICT, intruder.take)
        with pytest.raises(LedgerUnavailable):
            await world.verify(run.id)
        intruder.give_back()
    history = await world.assert_whole()
    assert ["promoted", "promoted"] == list(history.states().values())
    assert 4 == len(history.events)


@pytest.mark.parametrize("setting", ["after-lunch:kill", "at-dequeue:explode", "at-dequeue:stall:soon"])
def test_a_fail_point_that_does_not_exist_is_refused(setting: str):
    """A point or an action with a slip in it would test nothing."""
    with pytest.raises(ValueError, match=r"lunch|explode|soon"):
        failpoints._read(setting)
