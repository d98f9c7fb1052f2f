"""Work is never lost and never done twice in effect, whatever becomes of the queue and of those who take from it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from redis import Redis

from gateway.runtime.failpoints import Point, Unforeseen, action_of, arm
from gateway.runtime.settings import Settings
from policies.vocabulary import Reason
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.deployment import WALL, Deployment, client_of, deployed, ended, eventually
from tests.support.harness import free_port
from tests.support.ledger import rows
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, World, a_world

ATTEMPTS = 3


@pytest.fixture
async def world(tmp_path: Path, valkey: ValkeyServer, sandbox: Sandbox) -> AsyncIterator[World]:
    boards.write_board(tmp_path / "policies", windows=["alltime"])
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
        verify_attempts=ATTEMPTS,
    )
    async with a_world(settings, sandbox, valkey) as world:
        yield world


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path, valkey, verify_batch=4) as deployment:
        boards.write_board(deployment.policies, budget=WALL)
        yield deployment


@pytest.mark.parametrize("point", [Point.AFTER_LEASE, Point.AFTER_VERDICT, Point.INSIDE_SETTLE])
async def test_I14_a_run_that_breaks_every_worker_it_meets_is_held(world: World, point: Point):
    """After as many leases as the settings allow it is not tried again, says why, and was judged once."""
    poison = await world.submitted(points=3)
    for _ in range(ATTEMPTS):
        arm(point, action_of("raise"))
        # What fails as it is settled is reported by the worker, which goes on to the others.
        with nullcontext() if point is Point.INSIDE_SETTLE else pytest.raises(Unforeseen):
            await world.verify(poison.id)
        world.harness.clock.shift(10 * LEASE_S)
    innocent = await world.submitted("p2", points=7)
    await world.verify(innocent.id)
    history = await world.assert_whole()
    assert {poison.id: "held", innocent.id: "promoted"} == history.states()
    assert 4 == len(history.events)
    found = rows(
        world.edge.settings.ledger_path, "SELECT reason, attempt FROM submissions WHERE state = 'held'"
    )
    assert [(Reason.ATTEMPTS_EXHAUSTED.value, ATTEMPTS + 1)] == found


async def test_I15_the_age_of_the_backlog_is_that_of_the_oldest_without_a_verdict(world: World):
    """Handing work to a queue that nobody reads makes it no younger; what an operator scrapes says so."""

    async def scraped() -> dict[str, float]:
        text = await world.harness.metrics()
        lines = [line.split() for line in text.splitlines() if line.startswith("scoregate_verify_backlog")]
        return {name: float(value) for name, value in lines if "urgent" in name or value != "0.0"}

    count = 'scoregate_verify_backlog{queue="urgent"}'
    age = 'scoregate_verify_backlog_age_seconds{queue="urgent"}'
    assert {count: 0, age: 0} == await scraped()
    first = await world.submitted()
    world.harness.clock.shift(3600)
    await world.submitted("p2")
    for _ in range(3):
        await world.steward.dispatch()
        world.harness.clock.shift(60)
    found = await scraped()
    assert 2 == found[count]
    assert 3780 == pytest.approx(found[age], abs=60)
    await world.verify(first.id)
    assert 180 == pytest.approx((await scraped())[age], abs=60)


async def test_I15_deleting_every_rq_key_under_load_loses_nothing(house: Deployment, valkey: ValkeyServer):
    """While runs come in, the queue's keys go again and again: each run gets its verdict, once."""
    for part in ("serve", "steward", "worker"):
        house.start(part)
    await house.is_answering()
    with Redis.from_url(valkey.url) as redis:
        deleted = 0
        async with client_of(house) as client:
            token = await client.harness.new_player()
            runs = []
            for number in range(40):
                runs.append(await client.submitted(points=2 + number % 9, token=token))
                if keys := redis.keys("rq:*"):
                    deleted += redis.delete(*keys)
        states = await house.settled(*(run.id for run in runs))
        assert deleted > 0
        assert {"promoted"} == set(states.values())
        assert dict.fromkeys(states, 1) == house.verdict_events()
        await house.is_shown(redis)


async def test_I11_a_worker_outlives_failures_of_its_job_at_every_step(house: Deployment):
    """Whatever nobody foresaw in a job ends that job and not the worker; the runs come again, to the same process."""
    points = (
        Point.AT_DEQUEUE,
        Point.AFTER_LEASE,
        Point.AFTER_VERDICT,
        Point.INSIDE_SETTLE,
        Point.AFTER_SETTLE,
        Point.AFTER_PROJECT,
    )
    house.start("serve")
    await house.is_answering()
    async with client_of(house) as client:
        runs = [await client.submitted(points=2 + number) for number in range(len(points) + 1)]
    worker = house.start("worker", ",".join(f"{point}:raise" for point in points))
    house.start("steward", verify_batch=1)
    states = await house.settled(*(run.id for run in runs))
    assert {"promoted"} == set(states.values())
    assert dict.fromkeys(states, 1) == house.verdict_events()
    assert worker.poll() is None
    with Redis.from_url(house.valkey.url) as redis:
        await house.is_shown(redis)


async def test_I22_a_worker_and_a_steward_told_to_end_finish_what_they_have_begun(house: Deployment):
    """SIGTERM in the middle of a job: the job is settled, both exit with 0, and nothing waits for a lease."""
    house.start("serve")
    await house.is_answering()
    async with client_of(house) as client:
        run = await client.submitted()
    worker = house.start("worker", f"{Point.AFTER_LEASE}:stall:0.5")
    steward = house.start("steward")
    await eventually(lambda: rows(house.ledger, "SELECT 1 FROM submissions WHERE attempt > 0"), house.log)
    for part in (worker, steward):
        part.send_signal(signal.SIGTERM)
    assert [0, 0] == await asyncio.gather(ended(worker), ended(steward))
    assert ({run.id: "promoted"}, {run.id: 1}) == (house.states(), house.verdict_events())
