"""Measures an edge on a part of a core under twice the submissions that it can take.

    python -m bench.overload [--core 0.15] [--seconds 60] [--factor 2]

One edge with everything on is held to a part of a core by a cgroup (v1 or v2, where this user may make one),
or else by stopping and continuing it fifty times a second. First its capacity is measured: 64 clients each
send again as soon as they have an answer. Then requests come at `factor` times that rate, whatever became of
earlier ones, and each waits at most ten seconds for its answer. Prints the accepted requests per second
against the capacity, the times of accepted and refused ones, those given up, the memory of the process before
and at its peak, and how long after the load a submission is again accepted at the usual pace.
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

from bench.edge import request_of, write_policy
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
class ClientAnswers:
    """Answers to clients: seconds until 202 and until 503, requests given up, counts of other statuses."""

    accepted_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    without_retry_after: int = 0
    given_up: int = 0
    others: dict[int, int] = field(default_factory=dict)

    def note(self, status: int, head: bytes, took_s: float) -> None:
        """Count an answer."""
        if status in {200, 202}:
            self.accepted_s.append(took_s)
        elif status == 503:
            self.refused_s.append(took_s)
            self.without_retry_after += b"retry-after" not in head.lower()
        else:
            self.others[status] = self.others.get(status, 0) + 1


class Connections:
    """Connections that are reused; a new one is opened if none is free."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def exchange(self, request: bytes, answers: ClientAnswers) -> None:
        """Send a request and count its answer."""
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S), self._room:
                status, head = await self._once(request)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            answers.given_up += 1
        else:
            answers.note(status, head, time.monotonic() - began_s)

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
    """Submissions that are signed beforehand, each with its own run and player."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tickets = Tickets(keyring_of(settings))
        self._simulator = load_policies(settings)["arcade"].simulators["arcade-1"]
        self._count = 0

    def prepared(self, count: int) -> list[bytes]:
        """Return `count` new submissions."""
        first, self._count = self._count, self._count + count
        return [
            request_of(self._tickets, self._simulator, self._settings.bind, first + number)
            for number in range(count)
        ]


async def capacity(port: int, requests: Sequence[bytes], seconds: float) -> float:
    """Return the accepted requests per second of CLOSED_CLIENTS clients that wait for each answer."""
    answers, connections, left = ClientAnswers(), Connections(port), iter(requests)
    until_s = time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < until_s and (request := next(left, None)) is not None:
            await connections.exchange(request, answers)

    await asyncio.gather(*(client() for _ in range(CLOSED_CLIENTS)))
    return len(answers.accepted_s) / seconds


async def offer(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> ClientAnswers:
    """Send requests at a steady rate, whatever became of earlier ones, and return the answers."""
    answers, connections, began_s = ClientAnswers(), Connections(port), time.monotonic()
    tasks: set[asyncio.Task[None]] = set()
    for number in range(min(len(requests), int(rate * seconds))):
        wait_s = began_s + number / rate - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        task = asyncio.create_task(connections.exchange(requests[number], answers))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return answers


async def recovery_s(port: int, requests: Sequence[bytes], usual_s: float) -> float:
    """Return the seconds until a submission is accepted within twice the usual time."""
    began_s = time.monotonic()
    for request in requests:
        answers = ClientAnswers()
        await Connections(port).exchange(request, answers)
        if answers.accepted_s and answers.accepted_s[0] <= 2 * usual_s + 0.2:
            break
    return time.monotonic() - began_s


@contextmanager
def holding_to(pid: int, core: float) -> Iterator[str]:
    """Hold a process to a part of a core while the block runs, and yield the means."""
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
    """Return a new cgroup with the process in it, or None if we may not make one."""
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
    """Return a process's memory as the kernel reports it."""
    match = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


def percentile_s(times_s: Sequence[float], share: float) -> float:
    """Return the time below which this share of them is."""
    return sorted(times_s)[min(len(times_s) - 1, int(len(times_s) * share))] if times_s else float("nan")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", type=float, default=0.15)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--factor", type=float, default=2.0)
    parser.add_argument("--capacity-seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sgo-") as folder, running_valkey() as valkey:
        write_policy(Path(folder) / "policies")
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
                holding_to(pid, arguments.core) as means,
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
    print(f"capacity {most:.0f}/s; {rate:.0f}/s are offer for {arguments.seconds:g} s", flush=True)
    prepared = requests.prepared(int(rate * arguments.seconds))
    later = requests.prepared(200)
    began_s = time.monotonic()
    answers = runner.run(offer(port, prepared, rate, arguments.seconds))
    took_s = time.monotonic() - began_s
    back_s = runner.run(recovery_s(port, later, 0.1))
    accepted, refused = answers.accepted_s, answers.refused_s
    print(
        f"accepted {len(accepted)} in {took_s:.1f} s: "
        f"{len(accepted) / took_s:.0f}/s, {len(accepted) / took_s / most:.2f} of capacity; "
        f"p50 {percentile_s(accepted, 0.5):.2f} s, p99 {percentile_s(accepted, 0.99):.2f} s, "
        f"most {max(accepted, default=0):.2f} s\n"
        f"refused {len(refused)}: "
        f"p50 {percentile_s(refused, 0.5):.2f} s, p99 {percentile_s(refused, 0.99):.2f} s; "
        f"without Retry-After {answers.without_retry_after}; "
        f"given up {answers.given_up}; others {answers.others}\n"
        f"memory {before_mib:.0f} MiB before, {memory_mib(pid):.0f} MiB after, "
        f"{memory_mib(pid, 'VmHWM'):.0f} MiB at its most\n"
        f"taken at the usual pace {back_s:.2f} s after the load ended"
    )


if __name__ == "__main__":
    main()
