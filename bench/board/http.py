"""Measures reads per second of an edge, beside a bare aiohttp server that sends as many bytes."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import uvloop
from aiohttp import web
from redis.asyncio import Redis

from bench.board.filling import BOARD, WINDOWS, fill, player_of, ranking_of, standing_of
from bench.load import LoadRound, run_wrk, server
from gateway.index.board_index import BoardIndex
from gateway.shared_records import Change
from policies.ranking import Ranking
from policies.vocabulary import State
from tests.support.policies import write_policies
from tests.support.ports import free_port

AROUND: Final = 2_000
"""Players whose neighbours are read, in turn."""

WARM_UP_S: Final = 1
"""Length of the load before each round, which does not count."""

WRITES_PER_S: Final = (20, 200)
"""Changes of the board each second in rounds with writes: a player's new score in each window."""

_SCRIPT: Final = """
local targets, at = {}, 0
init = function()
  for line in io.lines(os.getenv("BENCH_TARGETS")) do targets[#targets + 1] = wrk.format("GET", line) end
end
request = function()
  at = at % #targets + 1
  return targets[at]
end
response = function(code) if code ~= 200 then print("status " .. code) end end
"""


@dataclass(frozen=True)
class Reading:
    """A kind of read: its targets, and the changes of the board per second meanwhile."""

    name: str
    targets: list[str]
    writes_per_s: int = 0


@dataclass(frozen=True)
class Load:
    """The load of the rounds."""

    rounds: int
    seconds: int
    connections: int
    entries: int


class Rounds:
    """Rounds of load on the edge and on a bare server."""

    def __init__(self, folder: Path, redis_url: str, valkey_pid: int, load: Load) -> None:
        self._folder = folder
        self._valkey_pid = valkey_pid
        self._load = load
        self._redis_url = redis_url
        self._script = folder / "targets.lua"
        self._script.write_text(_SCRIPT)
        self._seq = itertools.count(load.entries + 1)

    async def run(self, client: Redis) -> list[tuple[Reading, int, list[tuple[LoadRound, LoadRound]]]]:
        """Return each reading, the bytes of its answer, and its rounds: bare, then edge."""
        ranking = ranking_of()
        await fill(client, ranking, self._load.entries, WINDOWS)
        measured = []
        for reading in self._readings():
            rounds = []
            for _ in range(self._load.rounds):
                size, edge = await self._edge(reading, BoardIndex(client, ranking))
                rounds.append((await self._bare(reading, size), edge))
            measured.append((reading, size, rounds))
        return measured

    def _readings(self) -> list[Reading]:
        path = f"/v1/boards/{BOARD}/entries"
        chosen = random.Random(1).sample(range(self._load.entries), min(AROUND, self._load.entries))
        around = [f"{path}/{player_of(number)}/around?radius=5" for number in chosen]
        top = [f"{path}?limit=100"]
        return [
            Reading("top-100", top),
            Reading("around-me", around),
            *(
                Reading(name, targets, per_s)
                for per_s in WRITES_PER_S
                for name, targets in (("top-100", top), ("around-me", around))
            ),
        ]

    async def _bare(self, reading: Reading, size: int) -> LoadRound:
        port = free_port()
        command = [sys.executable, "-m", "bench.board.http", str(port), str(size)]
        with server(command, {}, port) as pid:
            return await asyncio.to_thread(self._round, reading, port, {"server": pid})

    async def _edge(self, reading: Reading, index: BoardIndex) -> tuple[int, LoadRound]:
        port = free_port()
        policies = self._folder / "policies"
        if not policies.exists():
            policy = index.ranking.policy.model_dump(mode="json", exclude_defaults=True)
            write_policies(policies, policy)
        environment = {
            "SCOREGATE_DATA_DIR": str(self._folder / "data"),
            "SCOREGATE_POLICIES_DIR": str(policies),
            "SCOREGATE_REDIS_URL": self._redis_url,
            "SCOREGATE_BIND": f"127.0.0.1:{port}",
        }
        with server([sys.executable, "-m", "scoregate", "serve"], environment, port) as pid:
            size = await asyncio.to_thread(_size, f"http://127.0.0.1:{port}{reading.targets[0]}")
            async with _writing(index, self._seq, self._load.entries, reading.writes_per_s):
                pids = {"server": pid, "valkey": self._valkey_pid}
                return size, await asyncio.to_thread(self._round, reading, port, pids)

    def _round(self, reading: Reading, port: int, pids: Mapping[str, int]) -> LoadRound:
        targets = self._folder / "targets"
        targets.write_text("\n".join(reading.targets) + "\n")
        _, counted = [
            run_wrk(
                f"http://127.0.0.1:{port}",
                self._script,
                seconds=seconds,
                connections=self._load.connections,
                pids=pids,
                environment={"BENCH_TARGETS": str(targets)},
            )
            for seconds in (WARM_UP_S, self._load.seconds)
        ]
        return counted


@asynccontextmanager
async def _writing(
    index: BoardIndex, seq: itertools.count[int], entries: int, per_s: int
) -> AsyncIterator[None]:
    """Change the board `per_s` times a second while the block runs."""

    async def write() -> None:
        while True:
            await index.project(promotion(index.ranking, next(seq), entries))
            await asyncio.sleep(1 / per_s)

    writer = asyncio.create_task(write()) if per_s else None
    try:
        yield
    finally:
        if writer:
            writer.cancel()


def _size(url: str) -> int:
    with urlopen(url) as response:  # noqa: S310 - our own edge
        return len(response.read())


def promotion(ranking: Ranking, seq: int, entries: int) -> Change:
    """Return a player's new score in every window."""
    number = seq * 104_729 % entries
    score = seq * 15_485_863 % 10**6
    standings = tuple(standing_of(ranking, window, number, seq, score) for window in WINDOWS)
    return Change(seq, f"01m8{seq:022d}", BOARD, standings[0].player, State.PROMOTED, standings)


def median_ratio(rounds: list[tuple[LoadRound, LoadRound]]) -> tuple[float, float, float]:
    """Return the medians of bare and edge reads per second, and their ratio."""
    bare = statistics.median(bare_round.rate for bare_round, _ in rounds)
    edge = statistics.median(edge_round.rate for _, edge_round in rounds)
    return bare, edge, edge / bare


def median_cpu_us(rounds: list[LoadRound], process: str, seconds: int) -> float:
    """Return the median of the processor time that a process took for each read (µs)."""
    return statistics.median(1e6 * each.cpu_s[process] / (each.rate * seconds) for each in rounds)


def _serve_bare(port: int, size: int) -> None:
    """Serve a constant with aiohttp and nothing else."""
    constant = b"x" * size

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=constant, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/v1/boards/{board}/entries", answer)
        app.router.add_get("/v1/boards/{board}/entries/{player}/around", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


if __name__ == "__main__":
    _serve_bare(*map(int, sys.argv[1:]))
