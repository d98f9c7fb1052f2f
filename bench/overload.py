"""What an edge that has a part of a core does with twice the submissions that it can take.

    python -m bench.overload [--core 0.15] [--seconds 60] [--factor 2]

One edge with everything on, held to a part of a core by a cgroup (v1 or v2, where this user may make one), or else by being
stopped and continued fifty times a second. First its capacity is measured: as many clients as it takes, each sending again
as soon as it was answered. Then requests come at `factor` times that rate, whatever became of those before, and each waits
ten seconds at most for its answer. Prints what was accepted a second against the capacity, how long accepted and refused
ones took, what was given up, the memory of the process before and at its most, and how long after the end of the load a
submission is taken at its usual pace again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop
from redis import Redis

from bench.edge import _request, _write_policy
from bench.load import server
from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.tickets import Tickets
from gateway.index import keys
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies
from tests.support.ports import free_port
from tests.support.valkey import running_valkey

PATIENCE_S: Final = 10.0
CLOSED_CLIENTS: Final = 64
CONNECTIONS: Final = 1000
PERIOD_S: Final = 0.02
PREPARED_EACH: Final = 20_000


@dataclass
class Told:
    """What clients were told: seconds until 202, until 503, how many were given up, and what else there was."""

    accepted_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    without_retry_after: int = 0
    given_up: int = 0
    others: dict[int, int] = field(default_factory=dict)

    def note(self, status: int, head: bytes, took_s: float) -> None:
        """Notes an answer."""
        if status in {200, 202}:
            self.accepted_s.append(took_s)
        elif status == 503:
            self.refused_s.append(took_s)
            self.without_retry_after += b"retry-after" not in head.lower()
        else:
            self.others[status] = self.others.get(status, 0) + 1


class Connections:
    """Connections that are kept and used again; a new one where none is free."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def exchange(self, request: bytes, told: Told) -> None:
        """Sends a request, and notes what it was told."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S), self._room:
                status, head = await self._once(request)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            told.given_up += 1
        else:
            told.note(status, head, time.monotonic() - began_s)

    async def _once(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = await self._connection()
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
        except BaseException:
            writer.transport.abort()
            raise
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self._free.append((reader, writer))
        return int(head.split()[1]), head

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
        return await asyncio.open_connection("127.0.0.1", self._port)


class Requests:
    """Submissions, each of a run and a player of its own, signed beforehand."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tickets = Tickets(keyring_of(settings))
        self._simulator = load_policies(settings)["arcade"].simulators["arcade-1"]
        self._count = 0

    def prepared(self, count: int) -> list[bytes]:
        """So many that were never given out before."""
        first, self._count = self._count, self._count + count
        return [
            _request(self._tickets, self._simulator, self._settings.bind, first + number)
            for number in range(count)
        ]


async def capacity(port: int, requests: Sequence[bytes], seconds: float) -> float:
    """Accepted a second when a fixed number of clients send one after the other."""
    told, connections, left = Told(), Connections(port), iter(requests)
    until_s = time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < until_s and (request := next(left, None)) is not None:
            await connections.exchange(request, told)

    await asyncio.gather(*(client() for _ in range(CLOSED_CLIENTS)))
    return len(told.accepted_s) / seconds


async def offered(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> Told:
    """What came of requests at a steady rate, whatever became of those before."""
    told, connections, began_s = Told(), Connections(port), time.monotonic()
    tasks: set[asyncio.Task[None]] = set()
    for number in range(min(len(requests), int(rate * seconds))):
        wait_s = began_s + number / rate - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        task = asyncio.create_task(connections.exchange(requests[number], told))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return told


async def recovery_s(port: int, requests: Sequence[bytes], usual_s: float) -> float:
    """Seconds from now until a submission is accepted in no more than twice the usual time."""
    began_s = time.monotonic()
    for request in requests:
        told = Told()
        await Connections(port).exchange(request, told)
        if told.accepted_s and told.accepted_s[0] <= 2 * usual_s + 0.2:
            break
    return time.monotonic() - began_s


@contextmanager
def held_to(pid: int, core: float) -> Iterator[str]:
    """Gives a process so much of a core while the block runs; says by what means."""
    group = _group(pid, core)
    if group is None:
        with _stopped_and_continued(pid, core):
            yield "SIGSTOP and SIGCONT"
        return
    try:
        yield f"a cgroup in {group.parent}"
    finally:
        (group.parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _group(pid: int, core: float) -> Path | None:
    """A cgroup of our own with the process in it, or None where we may make none."""
    quota = str(int(core * 100_000))
    for root, limit, value in (
        (Path("/sys/fs/cgroup"), "cpu.max", f"{quota} 100000"),
        (Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", quota),
    ):
        group = root / f"scoregate-overload-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            group.mkdir()
        try:
            (group / limit).write_text(value)
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
        else:
            return group
    return None


@contextmanager
def _stopped_and_continued(pid: int, core: float) -> Iterator[None]:
    is_over = threading.Event()

    def limit() -> None:
        while not is_over.wait(PERIOD_S * core):
            os.kill(pid, signal.SIGSTOP)
            is_over.wait(PERIOD_S * (1 - core))
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=limit)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


def memory_mib(pid: int, name: str = "VmRSS") -> float:
    """What the kernel says of a process's memory."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def percentile_s(some: Sequence[float], share: float) -> float:
    """The value below which this share of them is."""
    return sorted(some)[min(len(some) - 1, int(len(some) * share))] if some else float("nan")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", type=float, default=0.15)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--factor", type=float, default=2.0)
    parser.add_argument("--capacity-seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sgo-") as folder, running_valkey() as valkey:
        _write_policy(Path(folder) / "policies")
        port = free_port()
        settings = Settings(
            data_dir=Path(folder) / "data",
            policies_dir=Path(folder) / "policies",
            redis_url=valkey.url,
            bind=f"127.0.0.1:{port}",
        )
        environment = {
            "SCOREGATE_DATA_DIR": str(settings.data_dir),
            "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
            "SCOREGATE_REDIS_URL": settings.redis_url,
            "SCOREGATE_BIND": settings.bind,
            "SCOREGATE_CONNECTIONS_PER_ADDRESS": "100000",
            "SCOREGATE_LOG_LEVEL": "warning",
        }
        requests = Requests(settings)
        with server([sys.executable, "-m", "scoregate", "serve"], environment, port) as pid:
            Redis.from_url(settings.redis_url).set(keys.sentinel("arcade"), "1")
            with (
                held_to(pid, arguments.core) as means,
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                print(f"held to {arguments.core:g} of a core by {means}", flush=True)
                _measure(runner, arguments, requests, port, pid)


def _measure(
    runner: asyncio.Runner, arguments: argparse.Namespace, requests: Requests, port: int, pid: int
) -> None:
    runner.run(capacity(port, requests.prepared(500), 3.0))  # warm
    most = runner.run(capacity(port, requests.prepared(PREPARED_EACH), arguments.capacity_seconds))
    before_mib = memory_mib(pid)
    rate = arguments.factor * most
    print(f"capacity {most:.0f}/s; {rate:.0f}/s are offered for {arguments.seconds:g} s", flush=True)
    prepared = requests.prepared(int(rate * arguments.seconds))
    later = requests.prepared(200)
    began_s = time.monotonic()
    told = runner.run(offered(port, prepared, rate, arguments.seconds))
    took_s = time.monotonic() - began_s
    back_s = runner.run(recovery_s(port, later, 0.1))
    accepted, refused = told.accepted_s, told.refused_s
    print(
        f"accepted {len(accepted)} in {took_s:.1f} s: {len(accepted) / took_s:.0f}/s, {len(accepted) / took_s / most:.2f} of capacity; "
        f"p50 {percentile_s(accepted, 0.5):.2f} s, p99 {percentile_s(accepted, 0.99):.2f} s, most {max(accepted, default=0):.2f} s\n"
        f"refused {len(refused)}: p50 {percentile_s(refused, 0.5):.2f} s, p99 {percentile_s(refused, 0.99):.2f} s; "
        f"without Retry-After {told.without_retry_after}; given up {told.given_up}; others {told.others}\n"
        f"memory {before_mib:.0f} MiB before, {memory_mib(pid):.0f} MiB after, {memory_mib(pid, 'VmHWM'):.0f} MiB at its most\n"
        f"taken at the usual pace {back_s:.2f} s after the load ended"
    )


if __name__ == "__main__":
    main()
