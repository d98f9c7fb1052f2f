"""Starts servers, loads them with `wrk`, and reads its report and the kernel's CPU times."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LoadRound:
    """A round of load: requests per second, latencies (ms), non-2xx answers, CPU seconds by process."""

    rate: float
    p50_ms: float
    p99_ms: float
    errors: int
    cpu_s: dict[str, float]


@contextmanager
def server(command: list[str], environment: Mapping[str, str], port: int) -> Iterator[int]:
    """Run a server on this port of the loopback while the block runs, and yield its process id."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        _await_port(port)
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
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    options: Sequence[str] = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(script))
    output = subprocess.run(
        ["wrk", *options, url],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return _read(output, {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()})


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    sys.exit("the server did not start")


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
