"""Measures runs per second from the socket to the canonical board, beside the raw simulation.

    python -m bench.pipeline [--runs 1000] [--rounds 3] [--copies] [--ledger-url postgresql://...] [--quick]

Everything runs: an edge, a steward, one worker, and Valkey. Each round submits `--runs` distinct real runs of
about a minute of the bundled game, each of a player of its own, and lasts from the first submission until
every run has its verdict and the last one that counts is on the board. Between the rounds the same recordings
are simulated raw: bare calls of the module in this process, without fuel. Then runs come at a tenth of that
rate, and each is timed from its 202 until it is on the board.

Prints runs per second, the processor time of each part for a run, and the commands that Redis ran for it.
With `--copies`, further rounds submit exact copies of one run, of a player each.

Processor time is compared, which other work on the machine disturbs less than the clock's. The last line is
`ratio R`: runs per second of the worker's processor time (its threads and its sandbox included) over raw
simulations per second of this process.

With `--ledger-url` it writes to that ledger: give it an empty one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import uvloop
from redis.asyncio import Redis

from bench.edge import signed_request, ticket_of, write_policy
from bench.made_runs import made_runs
from bench.processor_time import Seconds, processor_time, spent_since
from bench.replay import RecordedRun, raw
from bench.running_parts import running_parts
from bench.submitting import submit_all, submit_paced
from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.tickets import Tickets
from gateway.index import keys
from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Transaction
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies, open_ledger
from tests.support.ports import free_port
from tests.support.valkey import running_valkey

BOARD: Final = "arcade"
WARMING: Final = 32
"""Runs before the first round: modules are compiled, and the board is built."""

LOOK_S: Final = 0.02
GIVEN_UP_S: Final = 600
PACED: Final = 300
"""Runs that are timed, at most as many as a round has."""

SHARE: Final = 0.1
"""The load under which verdicts are timed, as a share of the capacity."""


@dataclass(frozen=True)
class Round:
    """A round: how many runs, how long (s), processor time by part (s), and commands that Redis ran."""

    runs: int
    took_s: float
    cpu_s: Seconds
    commands: Counter[str]

    def cost_us(self, part: str) -> float:
        """Return the processor time of a part for one run."""
        return sum(s for name, s in self.cpu_s.items() if name.startswith(part)) / self.runs * 1e6


def main() -> None:
    """Run the comparison."""
    arguments = _arguments()
    count = WARMING + arguments.runs * arguments.rounds + min(PACED, arguments.runs)
    print(f"making {count} runs of about a minute each", flush=True)
    runs = made_runs(count, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="sgb-") as folder, running_valkey() as valkey:
        write_policy(Path(folder) / "policies")
        chosen = {
            "data_dir": f"{folder}/data",
            "policies_dir": f"{folder}/policies",
            "redis_url": valkey.url,
            "bind": f"127.0.0.1:{free_port()}",
            "shutdown_pause_s": "0",
            "read_budget_ms": "1000000",
            "answer_within_s": "60",
        } | ({"ledger_url": arguments.ledger_url} if arguments.ledger_url else {})
        environment = {f"SCOREGATE_{name.upper()}": value for name, value in chosen.items()}
        settings = Settings(**chosen)
        port, others = settings.bind_address[1], {"valkey": valkey.pid}
        with running_parts(environment, port, others, Path(folder) / "log") as parts:
            uvloop.run(_measure(settings, parts.pids, runs, arguments))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1_000, help="runs of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", action="store_true", help="measure copies of one run too")
    parser.add_argument("--ledger-url", help="its own, empty ledger; by default a temporary SQLite file")
    parser.add_argument("--quick", action="store_true", help="a look: two rounds of 200 runs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs, arguments.rounds = 200, 2
    return arguments


async def _measure(
    settings: Settings, pids: Mapping[str, int], runs: Sequence[RecordedRun], arguments: argparse.Namespace
) -> None:
    async with open_ledger(settings) as ledger, Redis.from_url(settings.redis_url) as client:
        pipeline = Pipeline(settings, ledger, client, {**pids, "client": os.getpid()})
        await pipeline.round(runs[:WARMING])
        simulate, left = raw(), iter(runs[WARMING:])
        rounds, raw_us = list[Round](), [_raw_us(simulate, runs)]
        for _ in range(arguments.rounds):
            rounds.append(await pipeline.round(list(islice(left, arguments.runs))))
            raw_us.append(_raw_us(simulate, runs))
        _report("distinct", rounds)
        if arguments.copies:
            copies = [await pipeline.round([runs[at]] * arguments.runs) for at in range(arguments.rounds)]
            _report("copies", copies)
            print(f"copies cost {_worker_us(copies) / _worker_us(rounds):.2f} times as much of the worker")
        rate = SHARE * statistics.median(each.runs / each.took_s for each in rounds)
        latencies_ms = await pipeline.paced(list(left), rate)
    _report_latencies(rate, latencies_ms)
    bare, worker = statistics.median(raw_us), _worker_us(rounds)
    print(f"raw {bare:.0f} us a run, {1e6 / bare:.0f} runs/s")
    print(f"worker {worker:.0f} us a run, {1e6 / worker:.0f} runs/s of a core")
    print(f"ratio {bare / worker:.3f}")


class Pipeline:
    """A running deployment that runs are sent through, each of a new player."""

    def __init__(self, settings: Settings, ledger: Ledger, client: Any, pids: Mapping[str, int]) -> None:
        self._settings = settings
        self._ledger = ledger
        self._client = client
        self._pids = pids
        self._tickets = Tickets(keyring_of(settings))
        self._simulator = load_policies(settings)[BOARD].simulators["arcade-1"]
        self._players = 0

    async def round(self, runs: Sequence[RecordedRun]) -> Round:
        """Submit runs as fast as they are taken, and wait until all have their verdict and are shown."""
        requests = self._requests(runs)
        before, commands = processor_time(self._pids), await self._commands()
        began_s = time.perf_counter()
        await submit_all(self._settings.bind_address[1], requests)
        await self._all_shown()
        took_s = time.perf_counter() - began_s
        cpu_s = spent_since(before, self._pids)
        return Round(len(runs), took_s, cpu_s, await self._commands() - commands)

    async def paced(self, runs: Sequence[RecordedRun], rate: float) -> list[float]:
        """Return the milliseconds from each 202 until the run's entry is on the board."""
        first, requests = self._players, self._requests(runs)
        shown_s: dict[str, float] = {}
        following = asyncio.create_task(self._follow(shown_s, len(runs)))
        answered_s = await submit_paced(self._settings.bind_address[1], requests, rate)
        await following
        players = (_player(first + number) for number in range(len(runs)))
        return [
            max(0.0, shown_s[player] - at_s) * 1000 for player, at_s in zip(players, answered_s, strict=True)
        ]

    async def _follow(self, shown_s: dict[str, float], count: int) -> None:
        """Note when each player's entry is shown."""
        stream = keys.lane_changes(lane_of(BOARD))
        [(after, _)] = await self._client.xrevrange(stream, count=1)
        while len(shown_s) < count:
            for _, entries in await self._client.xread({stream: after}, block=1_000):
                after = entries[-1][0]
                for _, fields in entries:
                    shown_s.setdefault(fields[b"player"].decode(), time.monotonic())

    async def _all_shown(self) -> None:
        """Wait until no run waits for its verdict, and nothing settled waits to be shown."""
        async with asyncio.timeout(GIVEN_UP_S):
            while await self._ledger.read(_is_unshown):  # noqa: ASYNC110 - other processes do the work
                await asyncio.sleep(LOOK_S)

    async def _commands(self) -> Counter[str]:
        """Return how often Redis has run each command."""
        stats = await self._client.info("commandstats")
        return Counter({name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()})

    def _requests(self, runs: Sequence[RecordedRun]) -> list[bytes]:
        requests = []
        for run in runs:
            ticket = ticket_of(self._simulator, _player(self._players), run.seed)
            authority = self._settings.bind
            requests.append(signed_request(self._tickets, ticket, authority, run.claim, run.recording))
            self._players += 1
        return requests


async def _is_unshown(tx: Transaction) -> bool:
    """Return whether a run waits for its verdict, or a settled one waits to be shown."""
    waiting = await work.backlog()(tx)
    return (
        waiting[False].count > 0 or waiting[True].count > 0 or await work.next_due("project")(tx) is not None
    )


def _player(number: int) -> str:
    return f"p{number:08d}"


def _raw_us(simulate: Callable[[RecordedRun], None], runs: Sequence[RecordedRun]) -> float:
    """Return the processor time of a raw simulation."""
    some = runs[:200]
    began_s = time.process_time()
    for run in some:
        simulate(run)
    return (time.process_time() - began_s) / len(some) * 1e6


def _worker_us(rounds: Sequence[Round]) -> float:
    return statistics.median(each.cost_us("worker") for each in rounds)


def _report(name: str, rounds: Sequence[Round]) -> None:
    rates = ", ".join(f"{each.runs / each.took_s:.0f}" for each in rounds)
    print(f"{name}: {statistics.median(each.runs / each.took_s for each in rounds):.0f} runs/s ({rates})")
    for part in sorted({part for each in rounds for part, seconds in each.cpu_s.items() if seconds}):
        print(f"  {part:16} {statistics.median(each.cost_us(part) for each in rounds):6.0f} us a run")
    commands, runs = (
        sum((each.commands for each in rounds), Counter[str]()),
        sum(each.runs for each in rounds),
    )
    most = ", ".join(f"{name} {calls / runs:.2f}" for name, calls in commands.most_common(8))
    print(f"  Redis {commands.total() / runs:.1f} commands a run: {most}")


def _report_latencies(rate: float, latencies_ms: Sequence[float]) -> None:
    percentiles = statistics.quantiles(latencies_ms, n=100)
    print(
        f"from 202 to the board at {rate:.0f} runs/s, a tenth of the load: "
        f"p50 {percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms"
    )


if __name__ == "__main__":
    main()
