"""A process dies at each numbered step of a submission's way: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from redis import Redis

from gateway.runtime.failpoints import Point
from policies.vocabulary import State
from tests.support import boards
from tests.support.boards import tiny_claim
from tests.support.deployment import KILLED, WALL, Client, Deployment, client_of, deployed, ended, eventually
from tests.support.ledger import is_intact, rows
from tests.support.oracle import due_on_board, pending_in_ledger, shown_on_board
from tests.support.thorough import thoroughly
from tests.support.valkey import ValkeyServer

WAS_STORED = {
    Point.BEFORE_APPEND: False,
    Point.INSIDE_APPEND: False,
    Point.AFTER_APPEND: True,
    Point.BEFORE_ANSWER: True,
} | dict(thoroughly((Point.BEFORE_ADMIT, False), (Point.BEFORE_PEND, True)))
"""The steps of an edge, and whether it had stored the submission when it died."""
WORKER_STEPS = (
    Point.AT_DEQUEUE,
    Point.AFTER_LEASE,
    Point.INSIDE_SETTLE,
    Point.AFTER_SETTLE,
    *thoroughly(Point.AFTER_VERDICT, Point.AFTER_PROJECT),
)


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path, valkey) as deployment:
        boards.write_board(deployment.policies, budget=WALL)
        yield deployment


@pytest.fixture
async def client(house: Deployment) -> AsyncIterator[Client]:
    async with client_of(house) as client:
        yield client


async def assert_in_order(house: Deployment) -> None:
    """The index comes to be the fold of the ledger, and every submission has exactly one verdict."""
    policy = boards.board(house.policies).policy
    with Redis.from_url(house.valkey.url) as redis:
        await eventually(
            lambda: due_on_board(house.ledger, policy) == shown_on_board(redis, policy), house.log
        )
        await eventually(
            lambda: redis.zcard("lb:{201}:tiny:pending") == 0 == len(pending_in_ledger(house.ledger, "tiny"))
        )
    assert dict.fromkeys(house.states(), 1) == house.verdict_events()
    assert is_intact(house.ledger)


async def test_I10_S21_an_edge_that_dies_at_any_step_loses_nothing_it_acknowledged(
    house: Deployment, client: Client
):
    """The client sees a reset and sends the same bytes again: 202, stored once, verified once, on the board once."""
    edge = house.start("serve", Point.AFTER_OPEN)
    await house.is_answering()
    with pytest.raises(aiohttp.ClientError):
        await client.open_run()
    assert KILLED == await ended(edge)
    sent = {}
    for step in WAS_STORED:
        edge = house.start("serve", step)
        await house.is_answering()
        run = await client.open_run()
        request = client.harness.signed(run, tiny_claim(run.info["seed"]), board="tiny")
        with pytest.raises(aiohttp.ClientError):
            await client.harness.send(request)
        assert KILLED == await ended(edge)
        sent[step] = (request, run.id in house.states())

    house.start("serve")
    await house.is_answering()
    seen = {}
    for step, (request, was_stored) in sent.items():
        answer = await client.harness.send(request)
        seen[step] = (was_stored, answer.status, "Idempotency-Replayed" in answer.headers)
    assert {step: (was_stored, 202, was_stored) for step, was_stored in WAS_STORED.items()} == seen
    house.start("steward")
    house.start("worker")
    await house.settled(*house.states())
    assert [State.PROMOTED.value] * len(WAS_STORED) == list(house.states().values())
    await assert_in_order(house)


async def test_I11_a_worker_or_steward_that_dies_at_any_step_leaves_one_verdict(
    house: Deployment, client: Client
):
    """Each step kills a process that had work in its hands; the ones that follow settle every run exactly once."""
    house.start("serve")
    await house.is_answering()
    runs = [await client.submitted()]
    for step in (Point.BEFORE_DISPATCH, Point.AFTER_DISPATCH):
        assert KILLED == await ended(house.start("steward", step)), step
    house.start("steward")
    for step in WORKER_STEPS:
        runs.append(await client.submitted())
        assert KILLED == await ended(house.start("worker", step)), step
    house.start("worker")

    states = await house.settled(*(run.id for run in runs))
    assert {"promoted"} == set(states.values())
    await assert_in_order(house)


async def test_I11_I12_a_worker_that_is_stopped_in_a_simulation_is_overtaken(
    house: Deployment, client: Client
):
    """Killed in mid-simulation, or stopped and woken after another has settled its run: one verdict each."""
    module = boards.bad_module(house.policies / "slow", boards.LOOP)
    boards.write_board(house.policies, "slow", module, budget={"fuel": 10**13, "wall_ms": 900})
    house.start("serve")
    house.start("steward")
    first = house.start("worker")
    await house.is_answering()
    run = await client.submitted(board="slow")
    await eventually(lambda: _attempts(house, run.id) == 1, house.log)
    first.send_signal(signal.SIGSTOP)
    second = house.start("worker")
    assert {run.id: "held"} == await house.settled(run.id)
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGTERM)
    assert 0 == await ended(first)
    assert (2, {run.id: 1}) == (_attempts(house, run.id), house.verdict_events())

    killed = await client.submitted(board="slow")
    await eventually(lambda: _attempts(house, killed.id) == 1, house.log)
    second.kill()
    house.start("worker")
    assert {killed.id: "held"} == await house.settled(killed.id)
    assert {run.id: 1, killed.id: 1} == house.verdict_events()


def _attempts(house: Deployment, submission_id: str) -> int:
    [[attempt]] = rows(house.ledger, "SELECT attempt FROM submissions WHERE submission_id = ?", submission_id)
    return int(attempt)


async def test_I14_a_run_that_killed_too_many_workers_is_held(house: Deployment, client: Client):
    """After as many attempts as the settings allow it is a moderator's, and says why; other runs go on."""
    house.start("serve")
    await house.is_answering()
    poison, innocent = await client.submitted(), await client.submitted()
    _set_attempts(house, poison.id, 5)
    _set_attempts(house, innocent.id, 4)
    house.start("steward")
    house.start("worker")
    assert {poison.id: "held", innocent.id: "promoted"} == await house.settled(poison.id, innocent.id)
    assert "attempts-exhausted" == house.reason_of(poison.id)


def _set_attempts(house: Deployment, submission_id: str, attempt: int) -> None:
    with closing(sqlite3.connect(house.ledger)) as connection, connection:
        connection.execute(
            "UPDATE submissions SET attempt = ? WHERE submission_id = ?", (attempt, submission_id)
        )


async def test_I22_an_edge_told_to_end_under_load_finishes_what_it_has_begun(
    house: Deployment, client: Client
):
    """SIGTERM: no answer is an error of ours, what was acknowledged is in the ledger, and the exit is clean."""
    edge = house.start("serve")
    await house.is_answering()
    token = await client.harness.new_player()
    acknowledged: set[str] = set()
    statuses: set[int] = set()

    async def submit_until_it_is_gone() -> None:
        while True:
            try:
                run = await client.open_run(token)
                answer = await client.submit(run, tiny_claim(run.info["seed"]))
            except aiohttp.ClientError:
                return
            statuses.add(answer.status)
            if answer.status == 202:
                acknowledged.add(run.id)

    loads = [asyncio.create_task(submit_until_it_is_gone()) for _ in range(8)]
    await eventually(lambda: len(acknowledged) > 50)
    edge.send_signal(signal.SIGTERM)
    assert 0 == await ended(edge)
    await asyncio.gather(*loads)

    assert {202} == statuses
    assert set() == acknowledged - house.states().keys()
    assert is_intact(house.ledger)


async def test_I09_a_ledger_that_another_program_locks_is_503_and_then_202(house: Deployment, client: Client):
    """The edge waits two seconds for its turn, says that it cannot, and takes the same bytes once it can."""
    house.start("serve")
    await house.is_answering()
    run = await client.open_run()
    request = client.harness.signed(run, tiny_claim(run.info["seed"]), board="tiny")
    with closing(sqlite3.connect(house.ledger, isolation_level=None)) as intruder:
        intruder.execute("BEGIN IMMEDIATE")
        refused = await client.harness.send(request)
        intruder.execute("ROLLBACK")
    assert (503, "temporary-reduced-capacity", "1") == (
        refused.status,
        refused.problem,
        refused.headers["Retry-After"],
    )
    assert {} == house.states()
    with Redis.from_url(house.valkey.url) as redis:
        assert 0 == redis.zcard("lb:{201}:tiny:pending")
    assert 202 == (await client.harness.send(request)).status
