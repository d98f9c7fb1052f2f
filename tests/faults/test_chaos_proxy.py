"""The network between our parts and Redis at its worst: every command once in effect, every answer in time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from gateway.index.scripts import script_source
from gateway.runtime.settings import Settings
from replay.simulators.sandbox import Sandbox
from tests.support import boards
from tests.support.deployment import WALL, Deployment, client_of, deployed
from tests.support.harness import free_port
from tests.support.proxy import ChaosProxy, Fate, chaos_proxy, command_of, end_of_resp
from tests.support.valkey import ValkeyServer
from tests.support.world import LEASE_S, World, a_world

ANSWER_WITHIN_S = 10
REDIS_WITHIN_MS = 500
"""A busy machine answers within it, so only the faults that are made here are told as time-outs."""
CELLS = 5
"""The burst of a player here: no cell comes back while a test runs."""


@pytest.fixture
async def proxy(valkey: ValkeyServer) -> AsyncIterator[ChaosProxy]:
    async with chaos_proxy(str(valkey.socket)) as proxy:
        yield proxy


@pytest.fixture
async def world(
    tmp_path: Path, valkey: ValkeyServer, proxy: ChaosProxy, sandbox: Sandbox
) -> AsyncIterator[World]:
    limits = {
        "player": {"per_minute": 1, "burst": CELLS},
        "address": {"per_minute": 60_000, "burst": 1000},
        "open_runs": 100,
    }
    boards.write_board(tmp_path / "policies", windows=["alltime", "daily"], limits=limits)
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=proxy.redis_url,
        redis_timeout_ms=REDIS_WITHIN_MS,
        bind=f"127.0.0.1:{free_port()}",
        lease_s=LEASE_S,
    )
    async with a_world(settings, sandbox, valkey) as world:
        yield world


def calls(script: str) -> Callable[[bytes], bool]:
    """Whether a command runs this script, by digest or by source."""
    source = script_source(script).encode()
    named = {hashlib.sha1(source, usedforsecurity=False).hexdigest().encode(), source}

    def matches(message: bytes) -> bool:
        words = command_of(message)
        return words[0].upper() in {b"EVALSHA", b"EVAL"} and words[1] in named

    return matches


async def left(world: World, points: int) -> str:
    """What a submission is told of its player's limit."""
    _, request = world.honest(points=points)
    async with asyncio.timeout(ANSWER_WITHIN_S):
        answer = await world.harness.send(request)
    assert 202 == answer.status
    await world.edge.index.drained()
    return answer.headers["RateLimit"]


FATES = [Fate.RESET_BEFORE, Fate.RESET_AFTER, Fate.DROP_REPLY]


@pytest.mark.parametrize("fate", FATES)
async def test_I02_a_lost_admission_charges_one_cell_at_most(world: World, proxy: ChaosProxy, fate: Fate):
    """202 in time by this process's own limit; in Redis the call is charged once if it arrived, and never again."""
    assert f'"player";r={CELLS - 1}' == await left(world, 1)
    proxy.on(calls("admit_submissions"), fate)
    await left(world, 2)
    assert [fate] == proxy.applied
    charged = 1 if fate is Fate.RESET_BEFORE else 2
    assert f'"player";r={CELLS - charged - 1}' == await left(world, 3)
    history = await world.assert_whole()
    assert ["promoted"] * 3 == list(history.states().values())


@pytest.mark.parametrize("fate", FATES)
async def test_I02_a_lost_note_or_projection_is_made_good_once(world: World, proxy: ChaosProxy, fate: Fate):
    """Whether Redis had done it or not: in the end the board has it, and listeners were told of it once."""
    await left(world, 1)
    proxy.on(calls("close_runs"), fate)
    await left(world, 2)
    waiting = [each.decode() for each in (await world.history()).pending("tiny")]
    await world.verify(*waiting)
    last, request = world.honest(points=3)
    await world.harness.send(request)
    proxy.on(calls("project_change"), fate)
    await world.verify(last.id)
    assert [fate, fate] == proxy.applied

    history = await world.assert_whole()
    assert 6 == len(history.events)
    told = [entry[b"submission"] for _, entry in world.redis.xrange("lb:{201}:changes")]
    assert 2 == told.count(last.id.encode())  # one for each window


@pytest.mark.parametrize("which", [1, 2, 3, 4])
async def test_I02_whichever_reply_is_dropped_the_accounts_balance(
    world: World, proxy: ChaosProxy, which: int
):
    """The reply of the n-th script of a run's way is lost: one submission, one verdict, one entry."""
    await left(world, 1)
    proxy.on(lambda message: command_of(message)[0].upper() == b"EVALSHA", Fate.DROP_REPLY, nth=which)
    run = await world.submitted(points=4)
    await world.edge.index.drained()
    await world.verify(run.id)
    await world.reconcile()
    await left(world, 2)
    history = await world.assert_whole()
    assert [Fate.DROP_REPLY] == proxy.applied
    assert ["promoted"] * 3 == list(history.states().values())


async def test_I02_a_redis_that_is_far_away_holds_nobody_up(world: World, proxy: ChaosProxy):
    """Submissions are answered without it, boards from the ledger; as it comes near again all is shown."""
    await left(world, 1)
    proxy.delay_s = 60
    async with asyncio.timeout(30):
        run = await world.submitted(points=4)
        await world.verify(run.id)
        board = await world.harness.get("/v1/boards/tiny/entries")
        ready = await world.harness.ready()
    assert (200, "ledger") == (board.status, board.headers["Scoregate-Source"])
    assert (200, "degraded") == (ready.status, ready.body["status"])
    proxy.delay_s = 0
    proxy.reset_all()
    await world.assert_whole()


async def test_I02_a_half_open_connection_is_given_up_in_time(world: World, proxy: ChaosProxy):
    """Nothing passes and nothing is closed: submissions go on, and when it flows again so does the board."""
    await left(world, 1)
    proxy.freeze()
    async with asyncio.timeout(ANSWER_WITHIN_S):
        runs = [await world.submitted(points=points) for points in (2, 3)]
        await world.verify(*(run.id for run in runs))
    proxy.thaw()
    history = await world.assert_whole()
    assert ["promoted"] * 3 == list(history.states().values())
    assert 6 == len(history.events)


async def test_I02_a_reset_of_every_connection_is_seen_by_nobody(world: World, proxy: ChaosProxy):
    """Between any two requests all connections are cut: the next ones are answered, and end up on the board."""
    for points in range(2, 2 + CELLS):
        await left(world, points)
        proxy.reset_all()
    history = await world.assert_whole()
    assert CELLS == len(history.promoted("tiny"))


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer) -> Iterator[Deployment]:
    with deployed(tmp_path, valkey, verify_batch=2) as deployment:
        boards.write_board(deployment.policies, budget=WALL)
        yield deployment


async def test_I02_I11_steward_and_worker_outlive_a_bad_line_to_redis(
    house: Deployment, valkey: ValkeyServer, proxy: ChaosProxy
):
    """Their connections are slow, are cut, and lose replies, RQ's among them: one verdict for each run."""
    house.start("serve")
    house.start("steward", redis_url=proxy.redis_url)
    house.start("worker", redis_url=proxy.redis_url)
    await house.is_answering()
    runs = []
    async with client_of(house) as client:
        for number in range(8):
            runs.append(await client.submitted(points=number + 2))
            proxy.delay_s = 0.02 * (number % 3)
            proxy.on(_is_of_rq, FATES[number % 3], nth=number + 1)
            proxy.on(calls("project_change"), FATES[number % 3])
            if number % 3 == 2:
                proxy.reset_all()
        proxy.delay_s = 0
        states = await house.settled(*(run.id for run in runs))
    assert {"promoted"} == set(states.values())
    assert dict.fromkeys(states, 1) == house.verdict_events()
    assert len(proxy.applied) > 5
    with Redis.from_url(valkey.url) as redis:
        await house.is_shown(redis)


def _is_of_rq(message: bytes) -> bool:
    return any(word.startswith(b"rq:") for word in command_of(message)[1:3])


RESP = [
    b"+OK\r\n",
    b"$-1\r\n",
    b"$5\r\na\r\nbc\r\n",
    b"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n-ERR no\r\n",
    b"%1\r\n+key\r\n~2\r\n#t\r\n_\r\n",
    b"*-1\r\n",
    b"*0\r\n",
]


@pytest.mark.parametrize("value", RESP)
def test_the_proxy_knows_where_a_reply_ends(value: bytes):
    """Exactly at its last byte, and not before, whatever follows."""
    assert len(value) == end_of_resp(value + b"+next\r\n")
    assert [None] * len(value) == [end_of_resp(value[:cut]) for cut in range(len(value))]
