"""Edges, workers and stewards whose clocks differ, are set while they run, or have nothing to compare them with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.support import boards
from tests.support.deployment import PATIENCE_S, Client, Deployment, client_of, deployed
from tests.support.faketime import SetClock
from tests.support.harness import Answer, Run
from tests.support.ports import free_port
from tests.support.stores import PostgresStore, Store, on_both_ledgers
from tests.support.valkey import running_valkey

HOUR_S: Final = 3600
VERDICT_S: Final = 60
"""Half of what a verdict would wait for a steward that is two minutes behind the edge."""

SLACK = {"points_per_second": 1_000_000.0, "slack_s": 2.0}


class Edges:
    """An edge whose clock is ahead and one whose clock is behind, with a client of each that has the true time."""

    def __init__(self, house: Deployment, clocks: dict[str, SetClock], settings: dict[str, Any]) -> None:
        self.house = house
        self.clocks = clocks
        self.settings = settings
        self.clients: dict[str, Client] = {}
        self._binds = {name: f"127.0.0.1:{free_port()}" for name in clocks}
        self._processes: dict[str, Any] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Edges]:
        async with AsyncExitStack() as stack:
            for name in self.clocks:
                await self.start(name)
                self.clients[name] = await stack.enter_async_context(client_of(self.house))
            yield self

    async def start(self, name: str) -> None:
        """Starts an edge under its clock, in place of the one before."""
        if name in self._processes:
            self._processes[name].kill()
            self._processes[name].wait()
        self.house.authority = self._binds[name]
        with self.clocks[name].imposed():
            bind = {"bind": self._binds[name]}
            self._processes[name] = self.house.start("serve", **self.settings, **bind)
        await self.house.is_answering()

    async def carried(self, first: str, second: str, *, ticks: int = 25) -> tuple[Run, Answer]:
        """A run that one edge opens and another takes; a client that is told the time by a refusal goes by it."""
        run = await self.opened(first)
        return run, await self.sent(second, run, ticks=ticks)

    async def opened(self, name: str) -> Run:
        """A run of a new player."""
        harness = self.clients[name].harness
        player = await _taken(lambda: harness.post("/v1/players", {"name": "Ada"}))
        token, body = str(player.body["token"]), {"build": boards.BUILD}
        run = await _taken(lambda: harness.post("/v1/boards/tiny/runs", body, token))
        assert (201, 201) == (player.status, run.status), run.raw
        return Run(run.body, token)

    async def sent(self, name: str, run: Run, *, ticks: int = 25) -> Answer:
        client, claim = self.clients[name], boards.tiny_claim(run.info["seed"], 5, ticks)
        answer = await _taken(lambda: client.submit(run, claim))
        if answer.problem == "signature-expired":
            told = answer.body["server_time"]
            answer = await _taken(lambda: client.submit(run, claim, created=told))
        return answer

    async def assert_honest_both_ways(self) -> None:
        """Runs that take no time pass from the edge that is ahead to the one behind, and back."""
        for first, second in (("ahead", "behind"), ("behind", "ahead")):
            _, answer = await self.carried(first, second)
            assert (202, "pending") == (answer.status, answer.body.get("state")), answer.raw

    async def readiness(self, name: str) -> dict[str, Any]:
        """What an edge says of itself, once its ledger takes writes: several parts have just opened it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found: dict[str, Any] = (await self.clients[name].harness.get("/readyz")).body
            if found["ledger"]:
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.05)


@asynccontextmanager
async def two_edges(tmp_path: Path, store: Store, redis_clock: SetClock) -> AsyncIterator[Edges]:
    with redis_clock.imposed():
        starting = running_valkey()
        valkey = starting.__enter__()
    try:
        settings: dict[str, Any] = {}
        if isinstance(store, PostgresStore):
            await _prepared(store)
            settings["ledger_url"] = store.url
        with deployed(tmp_path, valkey) as house:
            boards.write_board(house.policies, velocity=SLACK)
            house.settings |= settings
            clocks = {
                "ahead": SetClock(tmp_path / "ahead.time", 60),
                "behind": SetClock(tmp_path / "behind.time", -60),
            }
            edges = Edges(house, clocks, {})
            async with edges.running():
                yield edges
    finally:
        starting.__exit__(None, None, None)


async def _taken(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer that is no 503: on a busy machine an edge may refuse for a while, which says nothing of clocks."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := await send()).status == 503:
        assert time.monotonic() < deadline, answer.raw
        await asyncio.sleep(int(answer.headers["Retry-After"]))
    return answer


async def _prepared(store: PostgresStore) -> None:
    ledger = store.ledger()
    await ledger.open()
    await ledger.close()


async def _settled(edges: Edges, run: Run) -> str:
    """The state that a run ends in."""
    began = time.monotonic()
    while True:
        harness = edges.clients["ahead"].harness
        state = str((await harness.get(f"/v1/submissions/{run.id}", run.token)).body["state"])
        if state != "pending":
            return state
        assert time.monotonic() - began < VERDICT_S
        await asyncio.sleep(0.05)


async def _doubtful(edges: Edges, name: str) -> None:
    """Returns once an edge has noticed that Redis' clock leapt."""
    deadline = time.monotonic() + PATIENCE_S
    while (await edges.readiness(name))["clock_error_s"] < HOUR_S:
        assert time.monotonic() < deadline, "the leap was not noticed"
        await asyncio.sleep(0.05)


@on_both_ledgers
async def test_F19_no_honest_run_is_rejected_by_a_difference_of_our_clocks(store: Store, tmp_path: Path):
    """Edges a minute ahead and behind, a worker and a steward too; a clock set while it runs; Redis' set; Redis away."""
    redis_clock = SetClock(tmp_path / "redis.time")
    async with two_edges(tmp_path, store, redis_clock) as edges:
        ahead, behind = [await edges.readiness(name) for name in ("ahead", "behind")]
        assert ("degraded", False, 60) == (ahead["status"], ahead["clock"], round(ahead["clock_offset_s"]))
        assert ("degraded", False, -60) == (
            behind["status"],
            behind["clock"],
            round(behind["clock_offset_s"]),
        )
        await edges.assert_honest_both_ways()

        with edges.clocks["behind"].imposed():
            steward = edges.house.start("steward")
        with SetClock(tmp_path / "worker.time", 60).imposed():
            worker = edges.house.start("worker")
        run, _ = await edges.carried("ahead", "ahead")
        assert "promoted" == await _settled(edges, run)
        for part in (steward, worker):  # no further run needs a verdict
            part.kill()
            part.wait()

        _, doubted = await edges.carried("ahead", "behind", ticks=60 * 60)
        assert "pending" == doubted.body["state"]
        _, cheat = await edges.carried("ahead", "behind", ticks=60 * 600)
        assert "rejected" == cheat.body["state"]

        opened = await edges.opened("ahead")
        edges.clocks["ahead"].set(60 - HOUR_S)
        await edges.assert_honest_both_ways()
        assert "pending" == (await edges.sent("ahead", opened)).body["state"]

        opened = [await edges.opened(name) for name in ("ahead", "behind")]
        redis_clock.set(HOUR_S)
        if not isinstance(store, PostgresStore):
            for name in ("ahead", "behind"):
                await _doubtful(edges, name)
        await edges.assert_honest_both_ways()
        assert "pending" == (await edges.sent("behind", opened[0])).body["state"]
        assert "pending" == (await edges.sent("ahead", opened[1])).body["state"]

        await edges.start("behind")  # it knows no other time than Redis' and its own
        await edges.assert_honest_both_ways()
        edges.house.valkey.kill()
        await edges.assert_honest_both_ways()
        await edges.start("behind")  # and now none but its own
        await edges.assert_honest_both_ways()
