"""Runs the parts of a deployment for a measurement, and reads their memory and processor time."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

START_S: Final = 120.0
COMMANDS: Final = {"edge": "serve", "steward": "steward", "worker": "worker"}


@dataclass(frozen=True)
class RunningParts:
    """The processes of the parts by name, and how long the edge took from its start until it listened (s)."""

    pids: Mapping[str, int]
    start_s: float

    def memory_mib(self) -> dict[str, float]:
        """Return the proportional set size (PSS) of each part with its children (MiB)."""
        return {
            name: sum(resident_mib(each)[0] for each in family_of(pid)) for name, pid in self.pids.items()
        }

    def idle_cpu(self, seconds: float) -> dict[str, float]:
        """Return the share of a core that each part takes in a span of time."""
        before = {name: _cpu_of_family(pid) for name, pid in self.pids.items()}
        began = time.perf_counter()
        time.sleep(seconds)
        took_s = time.perf_counter() - began
        return {name: (_cpu_of_family(pid) - before[name]) / took_s for name, pid in self.pids.items()}


@contextmanager
def running_parts(
    environment: Mapping[str, str], port: int, others: Mapping[str, int], log: Path
) -> Iterator[RunningParts]:
    """Run an edge, a steward and a worker while the block runs. `others` are processes to measure too."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    start_s = 0.0
    with log.open("ab") as output:
        try:
            for name, command in COMMANDS.items():
                began = time.perf_counter()
                processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "scoregate", command],
                    env={**os.environ, **environment},
                    stdout=output,
                    stderr=output,
                )
                if name == "edge":
                    _await_port(port, processes[name])
                    start_s = time.perf_counter() - began
            yield RunningParts({name: each.pid for name, each in processes.items()} | dict(others), start_s)
        finally:
            for process in reversed(processes.values()):
                process.terminate()
                process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.005)
        else:
            return
    sys.exit("the edge did not start; see the log in the folder of the measurement")


def family_of(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family_of(int(child)))]


def resident_mib(pid: int) -> tuple[float, float]:
    """Return the proportional and the resident set size (PSS and RSS) of one process (MiB)."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB$", rollup, re.MULTILINE))
    return int(sizes["Pss"]) / 1024, int(sizes["Rss"]) / 1024


def cpu_s(pid: int) -> float:
    """Return the processor time that one process has taken (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_of_family(pid: int) -> float:
    return sum(map(cpu_s, family_of(pid)))
