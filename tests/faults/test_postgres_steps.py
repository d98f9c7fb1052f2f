"""PostgreSQL fails at each step of a run's way: what the client is told, and what is true once it is back.

It is killed, it stands still, or every connection to it is cut, at each point where the way goes through the ledger
(`gateway.runtime.failpoints`); and the connection is lost at each message that the way sends to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gateway.runtime import failpoints
from gateway.runtime.failpoints import Point, arm
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.harness import Answer, Request, free_port
from tests.support.oracle import History
from tests.support.postgres import APP, PostgresServer
from tests.support.proxy import ChaosProxy, Fate, as_it_comes, chaos_proxy, is_a_commit
from tests.support.thorough import IS_THOROUGH, thoroughly
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, World, a_world, impatient_with_silence

PATIENCE_S = 30


@pytest.fixture
async def proxy(mortal: PostgresServer) -> AsyncIterator[ChaosProxy]:
    async with chaos_proxy(f"127.0.0.1:{mortal.port}", as_it_comes) as proxy:
        yield proxy


@pytest.fixture
async def world(
    tmp_path: Path, valkey: ValkeyServer, sandbox: Sandbox, mortal: PostgresServer, proxy: ChaosProxy
) -> AsyncIterator[World]:
    boards.write_board(tmp_path / "policies", windows=["alltime", "daily"])
    async with mortal.database() as name:
        settings = Settings(
            data_dir=tmp_path / "data",
            policies_dir=tmp_path / "policies",
            redis_url=valkey.url,
            bind=f"127.0.0.1:{free_port()}",
            lease_s=LEASE_S,
            ledger_url=mortal.url(name, APP, port=proxy.port),
        )
        try:
            with pytest.MonkeyPatch.context() as patch:
                impatient_with_silence(patch)
                async with a_world(settings, sandbox, valkey) as world:
                    await world.submitted("before")
                    yield world
        finally:
            mortal.mend()


def kill(server: PostgresServer, _: ChaosProxy) -> None:
    """The server is gone."""
    server.kill()


def stall(server: PostgresServer, _: ChaosProxy) -> None:
    """The server is there and says nothing."""
    server.stall()


def cut(_: PostgresServer, proxy: ChaosProxy) -> None:
    """The server is well, and every connection to it is lost."""
    proxy.reset_all()


FAULTS = (kill, stall, cut)
"""At the points inside a transaction. At the others a thorough run has what an ordinary run leaves out; but silence,
which takes time to notice, only where it is not noticed as it is at another statement of the same commit."""


async def accepted(world: World, request: Request) -> Answer:
    """The answer, once it is 202: until the database is back the client is told to come again."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await world.harness.send(request)).status == 503:
            assert "temporary-reduced-capacity" == answer.problem
            assert "1" == answer.headers["Retry-After"]
            await asyncio.sleep(0.02)
    assert 202 == answer.status, answer.raw
    return answer


async def whole(world: World) -> History:
    """What the ledger says after healing; connections that died with the last server are found out by their use."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(LedgerUnavailable):
                return await world.assert_whole()


# Point -> the faults there, and the statuses that a client may see who submits meanwhile
EDGE = {
    Point.BEFORE_ADMIT: ((cut, *thoroughly(kill)), {202, 503}),
    Point.BEFORE_APPEND: ((kill, *thoroughly(stall, cut)), {202, 503}),
    Point.INSIDE_APPEND: (FAULTS, {503}),
    Point.AFTER_APPEND: ((cut, *thoroughly(kill, stall)), {202}),
    Point.BEFORE_PEND: ((stall, *thoroughly(kill, cut)), {202}),
    Point.BEFORE_ANSWER: ((kill, *thoroughly(stall, cut)), {202}),
}


@pytest.mark.parametrize("point", EDGE)
async def test_I07_a_database_that_fails_under_a_submission_costs_a_retry_at_most(
    world: World, mortal: PostgresServer, proxy: ChaosProxy, point: Point
):
    """202 if and only if the commit is known; the same bytes afterwards get one row and one verdict."""
    faults, statuses = EDGE[point]
    for count, fault in enumerate(faults, start=1):
        run, request = world.honest()
        arm(point, partial(fault, mortal, proxy))
        first = await world.harness.send(request)
        assert first.status in statuses, fault
        mortal.mend()
        again = await accepted(world, request)
        if first.status == 202:
            assert "true" == again.headers["Idempotency-Replayed"]
        history = await whole(world)
        assert "promoted" == history.states()[run.id]
        assert 2 * (count + 1) == len(history.events)


WORK = {
    Point.BEFORE_DISPATCH: (cut, *thoroughly(kill, stall)),
    Point.AFTER_DISPATCH: (kill, *thoroughly(cut)),
    Point.AFTER_LEASE: (stall, *thoroughly(kill, cut)),
    Point.AFTER_VERDICT: (cut, *thoroughly(kill)),
    Point.INSIDE_SETTLE: FAULTS,
    Point.AFTER_SETTLE: (kill, *thoroughly(stall, cut)),
    Point.AFTER_PROJECT: (cut, *thoroughly(kill)),
}

MOST_TURNS = 5
"""Turns in which a step may meet what the fault before has left: connections of the pool that were cut."""


@pytest.mark.parametrize("point", WORK)
async def test_I07_I11_a_database_that_fails_under_work_leaves_one_verdict(
    world: World, mortal: PostgresServer, proxy: ChaosProxy, point: Point
):
    """Steward and worker are told that it is unavailable, and nothing else; whoever comes next finishes the work, once."""
    for count, fault in enumerate(WORK[point], start=1):
        run, request = world.honest()
        await accepted(world, request)
        arm(point, partial(fault, mortal, proxy))
        for _ in range(MOST_TURNS):
            with suppress(LedgerUnavailable):
                await world.steward.dispatch()
                await world.verify(run.id)
            if point not in failpoints._armed:
                break
        mortal.mend()
        history = await whole(world)
        assert "promoted" == history.states()[run.id]
        assert 2 * (count + 1) == len(history.events)


async def walk(world: World, request: Request, submission_id: str) -> int:
    """A run's way from its submission to its place on the board, as far as it comes; what its client was told."""
    status = (await world.harness.send(request)).status
    for work in (world.steward.dispatch, partial(world.verify, submission_id), world.steward.project):
        with suppress(LedgerUnavailable):
            await work()
    return status


@pytest.mark.parametrize(
    ("fate", "step"),
    [(Fate.RESET_BEFORE, 1 if IS_THOROUGH else 3), (Fate.RESET_AFTER, 1 if IS_THOROUGH else 2)],
)
async def test_I07_a_connection_lost_at_any_message_loses_and_doubles_nothing(
    world: World, proxy: ChaosProxy, fate: Fate, step: int
):
    """One run after another has its n-th message to the database cut off, until a way is shorter: one row, one verdict.

    An ordinary run takes every second or third message.
    """
    cuts, refused = 0, 0
    while len(proxy.applied) == cuts:
        cuts += 1
        run, request = world.honest(f"p{cuts}", points=2 + cuts % 8)
        proxy.on(lambda _: True, fate, nth=step * cuts)
        status = await walk(world, request, run.id)
        refused += status == 503
        again = await accepted(world, request)
        assert "Idempotency-Replayed" in again.headers or status == 503
    proxy.forget()
    assert cuts > 20 / step
    assert refused > 5 / step
    history = await whole(world)
    assert ["promoted"] * (cuts + 1) == list(history.states().values())
    assert 2 * (cuts + 1) == len(history.events)


async def test_I07_a_commit_whose_reply_never_comes_is_taken_for_unknown(world: World, proxy: ChaosProxy):
    """At each commit of a run's way: after the time for a reply the connection is given up, and the way goes on."""
    commits, told = 0, []
    while len(proxy.applied) == commits:
        commits += 1
        run, request = world.honest(f"p{commits}")
        proxy.on(is_a_commit, Fate.DROP_REPLY, nth=commits)
        told.append(await walk(world, request, run.id))
        again = await accepted(world, request)
        assert "true" == again.headers["Idempotency-Replayed"]
    proxy.forget()
    assert commits > 3
    # A machine that takes longer than the time for a reply is told the same of other commits.
    assert 503 == told[0]
    assert {503, 202} == set(told)
    history = await whole(world)
    assert ["promoted"] * (commits + 1) == list(history.states().values())
    assert 2 * (commits + 1) == len(history.events)
