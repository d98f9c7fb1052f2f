"""Starts servers, loads them with `wrk`, and reads its report and the kernel's CPU times."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.processor_time import processor_time, spent_since

_LISTENING: Final = "0A"
"""The state of a listening socket in the kernel's table."""


@dataclass(frozen=True)
class LoadRound:
    """A round of load: requests per second, latencies (ms), non-2xx answers, CPU seconds by process."""

    rate: float
    p50_ms: float
    p99_ms: float
    errors: int
    cpu_s: dict[str, float]


@contextmanager
def server(
    command: list[str], environment: Mapping[str, str], port: int, listeners: int = 1
) -> Iterator[int]:
    """Run a server on this port of the loopback while the block runs, and yield its process id.

    It is ready once so many sockets listen at the port.
    """
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        _await_port(port, listeners)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def run_wrk(
    url: str,
    script: Path,
    *,
    seconds: int,
    connections: int,
    pids: Mapping[str, int],
    environment: Mapping[str, str] | None = None,
) -> LoadRound:
    """Run `wrk` with one thread and a Lua script that makes the requests. `pids` are processes by name."""
    before = processor_time(pids)
    options: Sequence[str] = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script))
    output = subprocess.run(
        ["wrk", *options, url],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    spent = spent_since(before, pids)
    cpu_s = {name: sum(spent[part] for part in spent if part.split()[0] == name) for name in pids}
    return _read(output, cpu_s)


def _await_port(port: int, listeners: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if _listeners(port) >= listeners:
            return
        time.sleep(0.05)
    sys.exit("the server did not start")


def _listeners(port: int) -> int:
    """Return how many sockets listen at a port, for IPv4."""
    rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == _LISTENING for row in rows)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has taken (user and system)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read(output: str, cpu_s: dict[str, float]) -> LoadRound:
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])  # type: ignore[index]
    latency = dict(re.findall(r"(50|99)%\s+([\d.]+(?:us|ms|s))", output))
    return LoadRound(rate, _ms(latency["50"]), _ms(latency["99"]), output.count("status "), cpu_s)


def _ms(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
