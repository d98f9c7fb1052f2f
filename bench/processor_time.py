"""Reads the processor time of processes: that of the main thread, of other threads, and of children."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

Seconds = Mapping[str, float]
"""Seconds of processor time by part, such as `worker main`, `worker threads`, `worker children`."""


def processor_time(pids: Mapping[str, int]) -> Seconds:
    """Return what each process has taken so far, with its children, which are others for this process."""
    taken: dict[str, float] = defaultdict(float)
    for name, pid in pids.items():
        for task in Path(f"/proc/{pid}/task").iterdir():
            taken[f"{name} {'main' if task.name == str(pid) else 'threads'}"] += _seconds(task / "stat")
        for child in _descendants(pid) if pid != os.getpid() else ():
            with suppress(FileNotFoundError):  # it ended meanwhile
                taken[f"{name} children"] += _seconds(Path(f"/proc/{child}/stat"))
    return taken


def spent_since(before: Seconds, pids: Mapping[str, int]) -> Seconds:
    """Return what each process has taken since an earlier look."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in processor_time(pids).items()}


def _descendants(pid: int) -> list[int]:
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [each for child in children for each in (child, *_descendants(child))]


def _seconds(stat: Path) -> float:
    fields = stat.read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
