"""Two edges behind the nginx and the HAProxy that the how-to describes lose no request when they are restarted in turn."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.boards import tiny_claim
from tests.support.clock import ShiftedClock
from tests.support.deployment import PATIENCE_S, Client, Deployment, deployed, ended
from tests.support.gate import missing
from tests.support.harness import Harness, free_port
from tests.support.ledger import is_intact
from tests.support.preloaded import Process
from tests.support.valkey import ValkeyServer

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "run-the-parts-apart.md"
CLIENTS = 5
THINK_S = 0.1
"""Pause of a client between two rounds, so that the load leaves the machine to others."""

BETWEEN_RESTARTS = 50
"""Requests that are answered between two steps of a restart."""

ENOUGH = 5
"""Submissions after which the proxy has plainly seen for itself that an edge is back."""

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {sample}
}}
"""


def sample(language: str) -> str:
    """The one block of this language in the how-to."""
    [block] = re.findall(rf"```{language}\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    return block


def with_ports(text: str, listen: str, port: int, edges: list[int]) -> str:
    """A sample on ports of ours and without TLS. Fails if the sample no longer names what is replaced."""
    for old, new in ((listen, f"127.0.0.1:{port}"), ("127.0.0.1:8080", f"127.0.0.1:{edges[0]}")):
        assert 1 == text.count(old)
        text = text.replace(old, new)
    assert 1 == text.count("127.0.0.1:8081")
    return text.replace("127.0.0.1:8081", f"127.0.0.1:{edges[1]}")


def nginx(folder: Path, port: int, edges: list[int]) -> list[str]:
    config = folder / "nginx.conf"
    text = with_ports(sample("nginx"), "443 ssl", port, edges)
    config.write_text(NGINX.format(folder=folder, sample=text))
    return ["nginx", "-p", str(folder), "-c", str(config)]


def haproxy(folder: Path, port: int, edges: list[int]) -> list[str]:
    config = folder / "haproxy.cfg"
    config.write_text(with_ports(sample("haproxy"), ":443 ssl crt /etc/haproxy/scores.pem", port, edges))
    return ["haproxy", "-db", "-f", str(config)]


PROXIES = {"nginx": (nginx, "0.2"), "haproxy": (haproxy, "2.5")}
"""How each is started, and how long it needs a lame duck to pause: nginx does not ask, HAProxy asks every second, twice."""


def program(name: str) -> str:
    """The proxy's program. Skips where it is not installed, except in CI."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    return found or missing(f"{name} is not installed: apt-get install {name}")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen([program(command[0]), *command[1:]], stdout=output, stderr=output)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Load:
    """Clients that open runs, submit and read through the proxy, and never try again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.outcomes: Counter[str] = Counter()
        self.acknowledged: set[str] = set()

    @property
    def answered(self) -> int:
        return self.outcomes.total()

    async def go_on(self, token: str) -> None:
        """Work through one client's requests for ever, and count how each ended."""
        while True:
            await asyncio.sleep(THINK_S)
            try:
                run = await self._client.open_run(token)
                self.outcomes["ok"] += 1
                answer = await self._client.submit(run, tiny_claim(run.info["seed"]), "tiny")
                self._count(answer.status, 202)
                if answer.status == 202:
                    self.acknowledged.add(run.id)
                self._count((await self._client.harness.get("/v1/boards/tiny/entries")).status, 200)
            except (aiohttp.ClientError, AssertionError) as error:
                self.outcomes[repr(error)] += 1

    async def has_reached(self, metrics: str) -> None:
        """Return once the proxy has sent so much of it to the edge with these metrics, and other things elsewhere."""
        due = self.answered + BETWEEN_RESTARTS
        async with asyncio.timeout(PATIENCE_S):
            while self.answered < due or await self._submissions(metrics) < ENOUGH:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.05)

    async def _submissions(self, metrics: str) -> float:
        """How many an edge has had since it was started."""
        async with self._client.harness.session.get(f"http://{metrics}/metrics") as answer:
            counts = re.findall(
                r"^scoregate_submissions_total\{.*\} (\S+)$", await answer.text(), re.MULTILINE
            )
        return sum(map(float, counts))

    def _count(self, status: int, expected: int) -> None:
        self.outcomes["ok" if status == expected else f"status {status}"] += 1


@asynccontextmanager
async def loaded(authority: str) -> AsyncIterator[Load]:
    """Load through the proxy at this address, while the block runs."""
    async with aiohttp.ClientSession() as session:
        client = Client(Harness(None, ShiftedClock(), session, authority))
        load = Load(client)
        await until_proxied(client)
        tokens = [await client.harness.new_player() for _ in range(CLIENTS)]
        tasks = [asyncio.create_task(load.go_on(token)) for token in tokens]
        try:
            yield load
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until_proxied(client: Client) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if (await client.harness.get("/readyz")).status == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("proxy", PROXIES)
async def test_F27_a_rolling_restart_behind_a_proxy_loses_no_request(
    tmp_path: Path, valkey: ValkeyServer, proxy: str
):
    """With the how-to's own configuration every request is answered as if nothing was restarted, and none is lost."""
    program(proxy)
    command, pause_s = PROXIES[proxy]
    port, edges = free_port(), [free_port(), free_port()]
    authority = f"127.0.0.1:{port}"
    settings = {
        "hosts": f"{authority},scores.example,127.0.0.1:{edges[0]},127.0.0.1:{edges[1]}",
        "trusted_proxies": "127.0.0.1",
        "shutdown_pause_s": pause_s,
    }
    measured = {each: f"127.0.0.1:{free_port()}" for each in edges}
    with deployed(tmp_path, valkey, **settings) as house:

        def start(edge: int) -> Process:
            return house.start("serve", bind=f"127.0.0.1:{edge}", metrics_bind=measured[edge])

        parts = [start(each) for each in edges]
        for each in edges:
            await is_up(house, each)
        with running(command(tmp_path, port, edges), tmp_path / "proxy.log"):
            async with loaded(authority) as load:
                for at, each in enumerate(edges):
                    await load.has_reached(measured[each])
                    parts[at].send_signal(signal.SIGTERM)
                    assert 0 == await ended(parts[at])
                    parts[at] = start(each)
                    await is_up(house, each)
                    await load.has_reached(measured[each])
        assert {"ok": load.answered} == dict(load.outcomes)
        assert set() == load.acknowledged - house.states().keys()
        assert is_intact(house.ledger)
    print(f"{proxy}: {load.answered} requests, 2 restarts, none lost")  # noqa: T201 - pytest -s shows it


async def is_up(house: Deployment, port: int) -> None:
    """Return once an edge of its own port is ready."""
    house.authority = f"127.0.0.1:{port}"
    await house.is_answering()
