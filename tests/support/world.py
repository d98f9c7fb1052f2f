"""Edge, steward and worker in one process, over a real ledger and a real Valkey, to be hurt and healed."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from gateway.edge.auth.tickets import Ticket, new_run_id
from gateway.ledger.postgres import store
from gateway.ledger.postgres.store import PostgresLedger
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.runtime import failpoints
from gateway.runtime.failpoints import Point, arm, disarm
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import QUEUE_NAME, RqJobs
from gateway.steward_wiring import open_steward
from gateway.wiring import open_index, open_ledger, open_recordings
from policies.errors import IndexUnavailable
from policies.model import Policy
from policies.seeds import SEED_BITS
from replay.simulators.sandbox import Sandbox
from replay.worker.verifier import Verifier
from tests.support.boards import BUILD, tiny_claim
from tests.support.harness import Harness, Request, Run, running_harness, second_edge
from tests.support.oracle import History, breaches, differences, history_of
from tests.support.standstill import standstill
from tests.support.valkey import ValkeyServer

PATIENCE_S = 30.0
LEASE_S = 60
TURN_S = 0.2
JOBS_TIMEOUT_S = 1.0
REPLY_S = 1.0


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Has ledgers that are opened from now on wait for their turn to write, but not for long."""
    for kind in (SqliteLedger, PostgresLedger):
        patch.setitem(kind.__init__.__kwdefaults__, "busy_timeout_s", TURN_S)


def impatient_with_silence(patch: pytest.MonkeyPatch) -> None:
    """Has them take a PostgreSQL that says nothing for dead soon."""
    patch.setattr(store, "CONNECT_TIMEOUT_S", REPLY_S)
    patch.setattr(store, "REPLY_TIMEOUT_S", REPLY_S)


class World:
    """The parts under test, and an honest player of the tiny board.

    `beside` has the edge, the steward and the worker that go on where the first ones failed; without it these
    are the first ones again.
    """

    def __init__(
        self, harness: Harness, sandbox: Sandbox, valkey: ValkeyServer, beside: Harness | None = None
    ) -> None:
        self.harness = harness
        self.beside = beside or harness
        self.sandbox = sandbox
        self.valkey = valkey
        self.edge = harness.edge
        self.redis = Redis.from_url(valkey.url, socket_timeout=2.0)
        jobs = RqJobs(Redis.from_url(valkey.url, socket_timeout=JOBS_TIMEOUT_S))
        self.steward = harness.steward(jobs=jobs)
        self.steward_beside = beside.steward(jobs=jobs) if beside else self.steward

    @property
    def policies(self) -> list[Policy]:
        return [board.policy for board in self.edge.catalogue.of_files.values()]

    def honest(self, player: str = "p1", points: int = 5) -> tuple[Run, Request]:
        """A run of the tiny game that was just played, and the request that submits it."""
        run = self.run(player)
        return run, self.harness.signed(run, tiny_claim(run.info["seed"], points), board="tiny")

    def run(self, player: str, board: str = "tiny") -> Run:
        """A run as the edge opens it, past the limits on opening runs."""
        now_ms = self.harness.clock()
        simulators = self.edge.catalogue.of_files[board].simulators
        simulator = (
            bytes.fromhex(simulators[BUILD].digest.removeprefix("sha256:")) if simulators else bytes(32)
        )
        ticket = Ticket(
            new_run_id(now_ms),
            board,
            player,
            BUILD,
            simulator,
            secrets.randbits(SEED_BITS),
            now_ms,
            now_ms + 600_000,
        )
        text, key = self.edge.tickets.issue(ticket)
        info = {"run": ticket.run, "ticket": text, "key": base64.b64encode(key).decode(), "player": player}
        return Run(info | {"board": board, "seed": str(ticket.seed)}, "")

    async def submitted(self, player: str = "p1", points: int = 5) -> Run:
        run, request = self.honest(player, points)
        answer = await self.harness.send(request)
        assert (202, "pending") == (answer.status, answer.body["state"]), answer.raw
        return run

    async def verify(self, *submission_ids: str) -> int:
        return await self.harness.verify(*submission_ids, sandbox=self.sandbox)

    def queued(self) -> list[list[str]]:
        """The submissions of each job in RQ."""
        return [
            job.args[0] for job in Queue(QUEUE_NAME, connection=self.redis, serializer=JSONSerializer).jobs
        ]

    async def history(self) -> History:
        return await history_of(self.edge.ledger)

    async def heal(self) -> History:
        """End every lease, judge every submission, repair every difference, and return the ledger."""
        assert not failpoints._armed, f"nothing ever came to {[*failpoints._armed]}"
        await self.edge.index.drained()
        self.harness.clock.shift(10 * LEASE_S)
        pending = [each for each, state in (await self.history()).states().items() if state == "pending"]
        await self.beside.verify(*pending, sandbox=self.sandbox)
        self.harness.clock.shift(10)
        await self.reconcile()
        return await self.history()

    async def reconcile(self) -> None:
        """Does the steward's rounds until there is nothing left to show or to repair."""
        while await self.steward_beside.project():
            pass
        quiet, turn = 0, 2 * max(len(policy.windows) for policy in self.policies)
        while quiet < turn:
            with suppress(
                IndexUnavailable
            ):  # a connection that died with the last server is found out by its use
                quiet = 0 if await self.steward_beside.reconcile() else quiet + 1

    async def assert_whole(self) -> History:
        """After healing: every event legal, every submission judged once, every board as the ledger says."""
        history = await self.heal()
        assert [] == breaches(history, self.policies)
        assert [] == differences(self.redis, history, self.policies, self.harness.clock())
        assert "pending" not in history.states().values()
        return history


@asynccontextmanager
async def a_world(
    settings: Settings, sandbox: Sandbox, valkey: ValkeyServer, *, has_two: bool = False
) -> AsyncIterator[World]:
    """One edge, steward and worker, or two of each."""
    async with running_harness(settings) as harness, AsyncExitStack() as stack:
        beside = await stack.enter_async_context(second_edge(harness)) if has_two else None
        world = World(harness, sandbox, valkey, beside)
        try:
            yield world
        finally:
            disarm()
            world.redis.close()


async def overtaken(
    point: Point, work: Callable[[], Coroutine[Any, Any, object]], meanwhile: Awaitable[object]
) -> None:
    """Has `work` stand still at `point`, on a thread and a loop of its own, until `meanwhile` is done."""
    with standstill() as held_up:
        arm(point, held_up.stand)
        working = asyncio.create_task(asyncio.to_thread(asyncio.run, work()))
        try:
            await held_up.reached()
            await meanwhile
        finally:
            held_up.end()
            await working


async def work_apart(world: World, *submission_ids: str) -> int:
    """Judges submissions as another worker process would: over connections of its own."""
    settings, catalogue = world.edge.settings, world.edge.catalogue
    async with (
        open_ledger(settings) as ledger,
        open_index(settings) as index,
        open_recordings(settings) as recordings,
    ):
        parts = {"recordings": recordings, "clock": world.harness.clock}
        verifier = Verifier(settings, catalogue, ledger, index, world.sandbox, **parts)
        return await verifier.verify_all(submission_ids)


async def dispatch_apart(world: World) -> int:
    """Dispatches as another steward process would."""
    async with open_steward(world.edge.settings, clock=world.harness.clock) as steward:
        return await steward.dispatch()


def stop(valkey: ValkeyServer) -> None:
    """Redis is there and says nothing."""
    os.kill(valkey.pid, signal.SIGSTOP)


def kill(valkey: ValkeyServer) -> None:
    """Redis is gone."""
    valkey.kill()


def empty(valkey: ValkeyServer) -> None:
    """Redis is another one, which knows nothing."""
    valkey.kill()
    shutil.rmtree(valkey.folder / "appendonlydir")
    valkey.start()


def mend(valkey: ValkeyServer) -> None:
    """Redis is well again, whatever was done to it."""
    if valkey.is_running:
        os.kill(valkey.pid, signal.SIGCONT)
    else:
        valkey.start()
