"""Counts the instructions of one submission through the whole edge, which do not depend on other work.

    python -m bench.instructions [submission ...] [--count 256] [--together 64]

Each scenario runs in a process of its own under `valgrind --tool=callgrind` (Debian package), once with
`count` units after a warm-up and once with twice as many; the difference is what the units cost, without
starting and ending. Without valgrind it is the processor time. An edge and its client share the process and
its event loop. The client writes `together` requests before the loop turns, so that as many meet in a commit
each time. Prints instructions (or microseconds) per unit, of
the main thread and of all others; the last line is `ratio R`, of the first scenario to `bare`, which is
aiohttp's echo of the same requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from aiohttp import web
from redis import Redis

from bench.edge import echo_app, request_of, write_policy
from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.tickets import Tickets
from gateway.edge.listening import listen
from gateway.edge_wiring import open_edge
from gateway.index import keys
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import configure_logging
from gateway.wiring import load_policies
from tests.support.valkey import running_valkey

AUTHORITY: Final = "localhost:8300"
"""What requests name as their host. They are sent over a Unix socket, so nobody listens there."""

WARM_UP: Final = 2
"""How many times all connections send a request before those that count."""

PATIENT_S: Final = 60.0
"""The time to answer. Under valgrind everything takes fifty times as long, and nothing is to be refused."""

_SUMMARY: Final = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
_COUNTER: Final = ("valgrind", "--tool=callgrind", "--separate-threads=yes")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a scenario may use: a folder of its own, a Valkey, and how many units come together."""

    folder: Path
    redis_url: str
    together: int

    @property
    def settings(self) -> Settings:
        """The settings of its parts."""
        return Settings(
            data_dir=self.folder / "data",
            policies_dir=self.folder / "policies",
            redis_url=self.redis_url,
            bind=AUTHORITY,
            answer_within_s=PATIENT_S,
            redis_timeout_ms=10_000,
        )


Perform = Callable[[int], Awaitable[None]]
"""Does so many units of a scenario that is ready."""


class Scenario(NamedTuple):
    """A path to measure: `prepare` writes what so many units need, which is not counted; `begin` is."""

    prepare: Callable[[Surroundings, int], None]
    begin: Callable[[Surroundings], AbstractAsyncContextManager[Perform]]


class Cost(NamedTuple):
    """What a run cost, in instructions or in nanoseconds: on its main thread, and on all others."""

    main: int
    others: int

    def beyond(self, other: Cost, units: int) -> Cost:
        """Return what each unit cost that this run had more than the other."""
        return Cost((self.main - other.main) // units, (self.others - other.others) // units)


def main() -> None:
    """Count the named scenarios, or do the units of one of them."""
    arguments = _arguments()
    if arguments.perform:
        _perform(arguments)
        return
    costs = {name: _cost_of(name, arguments) for name in dict.fromkeys((*arguments.scenarios, "bare"))}
    unit = "instructions" if _has_valgrind() else "ns"
    for name, cost in costs.items():
        print(f"{name:12} {sum(cost):9,} {unit}: {cost.main:,} on the main thread, {cost.others:,} on others")
    print(f"ratio {sum(costs[arguments.scenarios[0]]) / sum(costs['bare']):.3f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", default=["submission"], help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--count", type=int, default=256, help="units in the shorter run")
    parser.add_argument("--together", type=int, default=64, help="units that come at the same moment")
    parser.add_argument("--perform", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.scenarios) - SCENARIOS.keys():
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return arguments


def _has_valgrind() -> bool:
    return shutil.which("valgrind") is not None


def _cost_of(name: str, arguments: argparse.Namespace) -> Cost:
    """Return the cost of a unit: that of the units by which one run is longer than another."""
    runs = [_run(name, arguments.count * times, arguments.together) for times in (1, 2)]
    return runs[1].beyond(runs[0], arguments.count)


def _run(name: str, count: int, together: int) -> Cost:
    """Return the cost of a process that does some units, from its beginning to its end."""
    with tempfile.TemporaryDirectory(prefix="sgi-") as folder, running_valkey() as valkey:
        surroundings = Surroundings(Path(folder), valkey.url, together)
        SCENARIOS[name].prepare(surroundings, count + WARM_UP * together)
        counts = surroundings.folder / "callgrind"
        counter = [*_COUNTER, f"--callgrind-out-file={counts}"] if _has_valgrind() else []
        words = [name, "--count", str(count), "--together", str(together), "--perform", folder, valkey.url]
        ended = subprocess.run(
            [*counter, sys.executable, "-m", "bench.instructions", *words],
            capture_output=True,
            check=False,  # what it said is told below
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        if ended.returncode:
            sys.exit(f"a run failed:\n{ended.stdout}{ended.stderr}")
        if not _has_valgrind():
            return Cost(*map(int, ended.stdout.splitlines()[-1].split()))
        totals = [
            int(_SUMMARY.findall(file.read_text())[-1]) for file in sorted(counts.parent.glob("callgrind-*"))
        ]
        return Cost(totals[0], sum(totals[1:]))


def _perform(arguments: argparse.Namespace) -> None:
    """Do the units of a scenario, and print the processor time of all but the warm-up (ns)."""
    folder, redis_url = arguments.perform
    configure_logging("info")  # as in service, where a submission has no line of its own
    surroundings = Surroundings(Path(folder), redis_url, arguments.together)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        begin = SCENARIOS[arguments.scenarios[0]].begin(surroundings)
        main_ns, all_ns = runner.run(_performed(begin, WARM_UP * arguments.together, arguments.count))
    print(main_ns, all_ns - main_ns)


async def _performed(
    begin: AbstractAsyncContextManager[Perform], warm_up: int, count: int
) -> tuple[int, int]:
    async with begin as perform:
        await perform(warm_up)
        began = time.thread_time_ns(), time.process_time_ns()
        await perform(count)
        return time.thread_time_ns() - began[0], time.process_time_ns() - began[1]


def _sign(surroundings: Surroundings, count: int) -> None:
    """Write signed submissions of real runs, each of a player of its own."""
    write_policy(surroundings.folder / "policies")
    tickets = Tickets(keyring_of(surroundings.settings))
    simulator = load_policies(surroundings.settings)["arcade"].simulators["arcade-1"]
    requests = [request_of(tickets, simulator, AUTHORITY, number) for number in range(count)]
    (surroundings.folder / "requests").write_bytes(pickle.dumps(requests))
    Redis.from_url(surroundings.redis_url).set(keys.sentinel("arcade"), "1")


@asynccontextmanager
async def _submit(surroundings: Surroundings) -> AsyncIterator[Perform]:
    """Begin an edge with everything on, which answers submissions."""
    async with (
        open_edge(surroundings.settings) as edge,
        listen(edge, [_listening(surroundings)]),
        _client(surroundings) as client,
    ):
        yield lambda units: client.send(units, b"202")


@asynccontextmanager
async def _echo(surroundings: Surroundings) -> AsyncIterator[Perform]:
    """Begin an echo of aiohttp's, which answers the same requests."""
    runner = web.AppRunner(echo_app(), access_log=None)
    await runner.setup()
    await web.SockSite(runner, _listening(surroundings)).start()
    async with _client(surroundings) as client:
        yield lambda units: client.send(units, b"200")
    await runner.cleanup()


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "submission": Scenario(_sign, _submit),
    "bare": Scenario(_sign, _echo),
}


def _listening(surroundings: Surroundings) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(surroundings.folder / "edge.sock"))
    return listener


@asynccontextmanager
async def _client(surroundings: Surroundings) -> AsyncIterator[_Client]:
    requests = pickle.loads((surroundings.folder / "requests").read_bytes())  # noqa: S301 - our own
    client = _Client(surroundings.folder / "edge.sock", surroundings.together, iter(requests))
    try:
        yield client
    finally:
        client.close()


class _Client:
    """Connections of the same process, each with at most one request that is not answered yet."""

    def __init__(self, path: Path, connections: int, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._unanswered = 0
        self._all_answered: asyncio.Future[None] = self._loop.create_future()
        self._status = b""
        self._sockets = [socket.socket(socket.AF_UNIX) for _ in range(connections)]
        for sock in self._sockets:
            sock.connect(str(path))
            sock.setblocking(False)  # noqa: FBT003 - the standard library has no keyword here
            self._loop.add_reader(sock, self._receive, sock)

    async def send(self, count: int, status: bytes) -> None:
        """Send so many requests, as many together as there are connections. Each must get this status."""
        self._status = status
        while count > 0:
            sockets = self._sockets[:count]
            self._unanswered, self._all_answered = len(sockets), self._loop.create_future()
            for sock in sockets:
                sock.send(next(self._requests))
            await self._all_answered
            count -= len(sockets)

    def close(self) -> None:
        """Close the connections."""
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()

    def _receive(self, sock: socket.socket) -> None:
        answer = sock.recv(65_536)
        if answer[9:12] != self._status:
            self._all_answered.set_exception(RuntimeError(f"unexpected: {answer!r}"))
            return
        self._unanswered -= 1
        if not self._unanswered:
            self._all_answered.set_result(None)


if __name__ == "__main__":
    main()
