"""Measures the memory of each process of an idle `scoregate up`, and the processor time of its start.

    python -m bench.idle [--seconds 5]

A new data directory is used, with the bundled policies. The second table is after a run was played and
settled, so that the worker has the child that simulates. PSS counts a page that n processes share as 1/n;
RSS counts it in full.
The last line is `most R`: the largest PSS (MiB).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scoregate_client import ScoregateClient

from bench.running_parts import cpu_s, family_of, resident_mib
from tests.support.game import BUILD, play_run
from tests.support.ports import free_port


class Idle(NamedTuple):
    """A process, its memory (MiB), and the processor time that it has taken (s)."""

    name: str
    pss_mib: float
    rss_mib: float
    cpu_s: float


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0, help="time to become idle")
    seconds = parser.parse_args().seconds
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, _up(Path(folder), port) as pid:
        started = {each: cpu_s(each) for each in family_of(pid)}
        time.sleep(seconds)
        idle = [_idle(each, started[each]) for each in family_of(pid)]
        asyncio.run(_settle_one(f"http://127.0.0.1:{port}"))
        time.sleep(seconds)
        processes = [_idle(each, started.get(each, 0.0)) for each in family_of(pid)]
    _print("idle", idle)
    _print("idle after a run", processes)
    print(f"\nmost {max(each.pss_mib for each in idle):.1f}")


def _print(title: str, processes: Sequence[Idle]) -> None:
    print(f"{title:16} {'PSS':>7} {'RSS':>7}  CPU to be ready")
    for each in processes:
        print(f"{each.name:16} {each.pss_mib:7.1f} {each.rss_mib:7.1f}  {each.cpu_s:.2f} s")


@contextmanager
def _up(folder: Path, port: int) -> Iterator[int]:
    """Run everything while the block runs, and yield the supervisor's process id."""
    words = ["up", "--data-dir", str(folder / "data"), "--bind", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "scoregate", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            if not any("Ctrl-C" in line for line in process.stdout):
                sys.exit("it did not start")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


async def _settle_one(url: str) -> None:
    """Play a run, and wait for its verdict."""
    async with ScoregateClient(url) as client:
        await client.create_player("Grace")
        run = await client.open_run("arcade", BUILD)
        claim = play_run(run.seed, skill=0.0, max_ticks=1)
        await asyncio.sleep(claim["ticks"] / 60)
        recording = base64.b64decode(claim["recording"])
        sent = await client.submit(run, claim["score"], claim["ticks"], claim["stats"], recording)
        await client.wait_until_settled(sent)


def _idle(pid: int, started_s: float) -> Idle:
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    known = re.search(r"scoregate (\w+)", " ".join(words))
    name = known[1] if known else "sandbox" if "replay" in " ".join(words) else Path(words[0]).name.split()[0]
    return Idle(name, *resident_mib(pid), started_s)


if __name__ == "__main__":
    main()
