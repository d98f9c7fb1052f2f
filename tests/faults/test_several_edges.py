"""Several edges at one address, as processes: they share the players, and a restart or the death of one loses nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gateway.deployment.run_files import running_parts
from tests.support.boards import tiny_claim
from tests.support.clock import ShiftedClock
from tests.support.deployment import PATIENCE_S, Client, Deployment, deployed, ended, eventually
from tests.support.forked_parts import FORK_PARTS
from tests.support.harness import Harness, Run
from tests.support.ledger import is_intact
from tests.support.ports import free_port
from tests.support.preloaded import Process
from tests.support.valkey import running_valkey

EDGES = 2
CLIENTS = 4
ENOUGH = 40
"""Requests that are answered between two events of a test."""

THINK_S = 0.05


class House:
    """A deployment whose edges one `scoregate serve --edges 2` keeps up."""

    def __init__(self, deployment: Deployment, metrics: list[str]) -> None:
        self.deployment = deployment
        self.metrics = metrics
        self.keeper: Process = deployment.start(
            f"serve --edges {EDGES}", before=FORK_PARTS, metrics_bind=metrics[0], shutdown_pause_s="0"
        )

    def edges(self) -> list[int]:
        """The process ids of the edges that run."""
        data = self.deployment.folder / "data"
        return [part.pid for part in running_parts(data) if part.part == "edge"]

    async def are_up(self) -> None:
        """Returns once every edge has said that it listens."""
        await eventually(lambda: len(self.edges()) == EDGES, self.deployment.log)
        async with aiohttp.ClientSession() as session:
            for metrics in self.metrics:
                await self._answers(session, metrics)

    async def all_answer_requests(self) -> None:
        """Returns once each edge has counted a request; an edge's metrics may be `KEPT_S` old."""
        async with asyncio.timeout(PATIENCE_S):
            while not all(await self.requests()):  # noqa: ASYNC110 - other processes answer
                await asyncio.sleep(0.1)

    async def requests(self) -> list[float]:
        """How many requests each edge has answered since it was started, as its metrics say."""
        async with aiohttp.ClientSession() as session:
            texts = [await self._answers(session, metrics) for metrics in self.metrics]
        counts = [
            re.findall(r"^scoregate_request_seconds_count\{.*\} (\S+)$", text, re.MULTILINE) for text in texts
        ]
        return [sum(map(float, each)) for each in counts]

    async def _answers(self, session: aiohttp.ClientSession, metrics: str) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with session.get(f"http://{metrics}/metrics") as answer:
                        return await answer.text()
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("several")
    with running_valkey() as valkey, deployed(folder, valkey, log_level="info") as deployment:
        yield House(deployment, ports_in_a_row(EDGES))


def ports_in_a_row(count: int) -> list[str]:
    ports = [free_port() for _ in range(count)]
    while ports != list(range(ports[0], ports[0] + count)):
        ports = [*ports[1:], free_port()]
    return [f"127.0.0.1:{port}" for port in ports]


class Load:
    """Clients that open runs and submit, each request on a connection of its own."""

    def __init__(self, client: Client, *, retries: bool) -> None:
        self._client = client
        self._retries = retries
        self.outcomes: Counter[str] = Counter()
        self.acknowledged: set[str] = set()

    async def go_on(self, token: str) -> None:
        """Work through one client's requests for ever, and count how each ended."""
        while True:
            await asyncio.sleep(THINK_S)
            run = await self._tried("open", lambda: self._client.open_run(token))
            if isinstance(run, Run):
                claim = tiny_claim(run.info["seed"])
                answer = await self._tried(
                    "submit", lambda run=run, claim=claim: self._client.submit(run, claim)
                )
                if answer is not None and answer.status == 202:
                    self.acknowledged.add(run.id)

    async def _tried(self, name, attempt):
        """What an attempt returns; after a broken connection, the same again if this client retries."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    done = await attempt()
                except (aiohttp.ClientError, AssertionError) as error:
                    self.outcomes["retried" if self._retries else repr(error)] += 1
                    if not self._retries:
                        return None
                else:
                    status = getattr(done, "status", 202)
                    self.outcomes["ok" if status == 202 else f"{name} {status}"] += 1
                    return done

    async def has_gone_on(self, count: int = ENOUGH) -> None:
        """Returns once so many more requests were answered."""
        due = self.outcomes["ok"] + count
        async with asyncio.timeout(PATIENCE_S):
            while self.outcomes["ok"] < due:  # noqa: ASYNC110 - other processes answer
                await asyncio.sleep(0.02)


@asynccontextmanager
async def loaded(house: House, *, retries: bool) -> AsyncIterator[Load]:
    """Load on the edges while the block runs."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = Client(Harness(None, ShiftedClock(), session, house.deployment.authority))
        load = Load(client, retries=retries)
        tokens = [await client.harness.new_player() for _ in range(CLIENTS)]
        tasks = [asyncio.create_task(load.go_on(token)) for token in tokens]
        try:
            yield load
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def are_kept(house: House, load: Load) -> bool:
    """Whether the ledger has all that was acknowledged, and is whole."""
    return load.acknowledged <= house.deployment.states().keys() and is_intact(house.deployment.ledger)


async def test_PT_a_rolling_restart_of_the_edges_at_one_address_loses_no_request(house: House):
    """Clients that never try again notice nothing: each connection that waits for an edge is served by its successor."""
    await house.are_up()
    async with loaded(house, retries=False) as load:
        await load.has_gone_on()
        for pid in house.edges():
            os.kill(pid, signal.SIGTERM)
            await eventually(lambda gone=pid: gone not in house.edges(), house.deployment.log)
            await house.are_up()
            await load.has_gone_on()
        await house.all_answer_requests()
    assert {"ok"} == load.outcomes.keys()
    assert load.acknowledged
    assert are_kept(house, load)


async def test_PT_an_edge_that_dies_loses_only_its_connections(house: House):
    """Clients that try again are served by the other edge; what was acknowledged is kept, and the edge comes back."""
    await house.are_up()
    async with loaded(house, retries=True) as load:
        for _ in range(2):
            await load.has_gone_on()
            dying, living = house.edges()
            os.kill(dying, signal.SIGKILL)
            await load.has_gone_on()
            assert living in house.edges()
            await eventually(lambda gone=dying: gone not in house.edges(), house.deployment.log)
            await house.are_up()
    assert {"ok"} == load.outcomes.keys() - {"retried"}
    assert are_kept(house, load)


async def test_PT_the_keeper_of_edges_passes_signals_on(house: House):
    """A hangup reaches every edge; SIGTERM ends them in order, and nobody listens any more."""
    await house.are_up()
    log = house.deployment.log
    before = log.read_text().count('"policy_')
    house.keeper.send_signal(signal.SIGHUP)
    await eventually(lambda: log.read_text().count('"policy_') >= before + EDGES, log)
    stopped = log.read_text().count('"stopped"')
    house.keeper.send_signal(signal.SIGTERM)
    assert 0 == await ended(house.keeper)
    assert stopped + EDGES == log.read_text().count('"stopped"')
    assert [] == house.edges()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*house.deployment.authority.split(":"))
