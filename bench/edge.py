"""Measures signed submissions per second through the whole edge, beside a bare aiohttp POST echo.

    python -m bench.edge [--seconds 8] [--connections 256] [--edges 2] [--half-load]

There is one edge process with everything on (limits, ledger commit, index), or `--edges` of them at one
address; one Valkey, and no worker. The load is `wrk` (Debian package) with requests signed beforehand, since
a Python client would cost more than the server. Each is a real run of the game with its own ticket, player
and recording. Rounds alternate, and medians are compared. With `--half-load`, as many rounds follow in which
connections pause so long between requests that half as many come. Prints requests per second, p50 and p99,
and CPU seconds per process; the last line is `ratio R`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

import uvloop
from aiohttp import web
from redis import Redis
from ruamel.yaml import YAML
from scoregate_client import encode_recording

from bench.load import LoadRound, run_wrk, server
from examples.arcade.players import Arcade, ArcadeRun, play
from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.signing import Draft, sign_hmac_sha256
from gateway.edge.auth.tickets import Ticket, Tickets, new_run_id
from gateway.index import keys
from gateway.runtime.settings import Settings, bundled_policies
from gateway.wiring import load_policies
from policies.loader import Simulator
from policies.vocabulary import Claim
from tests.support.ports import free_port
from tests.support.valkey import running_valkey

REAL_RUNS = 48
"""Real runs of the game that requests are made from; each request still gets its own recording."""

_WRK_SCRIPT = """
local requests, at = {}, 0
local file = io.open(os.getenv("BENCH_REQUESTS"), "rb")
while true do
  local size = file:read("*l")
  if not size then break end
  requests[#requests + 1] = file:read(tonumber(size))
end
request = function()
  at = at % #requests + 1
  return requests[at]
end
local pause_ms = tonumber(os.getenv("BENCH_PAUSE_MS"))
if pause_ms > 0 then
  -- Between none and twice as long, so that connections do not keep step.
  delay = function() return math.random(0, 2 * pause_ms) end
end
response = function(code) if code ~= 202 and code ~= 200 then print("status " .. code) end end
"""


def main() -> None:
    """Run the comparison."""
    arguments = _arguments()
    if not shutil.which("wrk"):
        sys.exit("bench.edge needs wrk: apt-get install wrk")
    with tempfile.TemporaryDirectory(prefix="sgb-") as folder, running_valkey() as valkey:
        bench = Bench(Path(folder), valkey.url, valkey.pid, arguments)
        rounds = [(bench.bare(), bench.edge(f"edge-{number}")) for number in range(arguments.rounds)]
        half_loads = []
        if arguments.half_load:
            pause_ms = _pause_ms([edge for _, edge in rounds], arguments.connections)
            half_loads = [bench.edge(f"half-{number}", pause_ms) for number in range(arguments.rounds)]
    _report(rounds, half_loads)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=6, help="length of each round")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edges", type=int, default=1, help="edges at one address")
    parser.add_argument(
        "--half-load", action="store_true", help="measure the time to answer at half the rate"
    )
    parser.add_argument(
        "--requests-per-second", type=int, default=8_000, help="signed beforehand, for each second"
    )
    parser.add_argument("--serve-bare", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_bare:
        _serve_bare(arguments.serve_bare)
        sys.exit()
    return arguments


class Bench:
    """Rounds of load on the edge and on a bare echo."""

    def __init__(self, folder: Path, redis_url: str, valkey_pid: int, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._valkey_pid = valkey_pid
        self._arguments = arguments
        self._redis_url = redis_url
        write_policy(folder / "policies")
        (folder / "load.lua").write_text(_WRK_SCRIPT)

    def bare(self) -> LoadRound:
        """Load a bare echo with the same requests."""
        port = free_port()
        command = [sys.executable, "-m", "bench.edge", "--serve-bare", str(port)]
        with server(command, {}, port) as pid:
            return self._load(pid, port, self._requests(self._settings(port, "bare")))

    def edge(self, name: str, pause_ms: int = 0) -> LoadRound:
        """Load the whole edge, with its own ledger. Each connection pauses so long between requests."""
        port = free_port()
        settings = self._settings(port, name)
        environment = {
            "SCOREGATE_DATA_DIR": str(settings.data_dir),
            "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
            "SCOREGATE_REDIS_URL": settings.redis_url,
            "SCOREGATE_BIND": settings.bind,
        }
        requests = self._requests(settings)
        edges = self._arguments.edges
        command = [sys.executable, "-m", "scoregate", "serve", "--edges", str(edges)]
        with server(command, environment, port, edges) as pid:
            # As a steward's first round does; without it every history is read from the ledger.
            Redis.from_url(settings.redis_url).set(keys.sentinel("arcade"), "1")
            return self._load(pid, port, requests, pause_ms)

    def _settings(self, port: int, name: str) -> Settings:
        return Settings(
            read_budget_ms=1_000_000,
            data_dir=self._folder / name,
            policies_dir=self._folder / "policies",
            redis_url=self._redis_url,
            bind=f"127.0.0.1:{port}",
        )

    def _requests(self, settings: Settings) -> Path:
        """Write a file of whole HTTP requests, each with its own run and player."""
        count = self._arguments.requests_per_second * self._arguments.seconds
        tickets, board = Tickets(keyring_of(settings)), load_policies(settings)["arcade"]
        simulator = board.simulators["arcade-1"]
        path = self._folder / "requests"
        with path.open("wb") as file:
            for number in range(count):
                request = request_of(tickets, simulator, settings.bind, number)
                file.write(b"%d\n%b" % (len(request), request))
        return path

    def _load(self, pid: int, port: int, requests: Path, pause_ms: int = 0) -> LoadRound:
        return run_wrk(
            f"http://127.0.0.1:{port}",
            self._folder / "load.lua",
            seconds=self._arguments.seconds,
            connections=self._arguments.connections,
            pids={"server": pid, "valkey": self._valkey_pid},
            environment={"BENCH_REQUESTS": str(requests), "BENCH_PAUSE_MS": str(pause_ms)},
        )


def write_policy(folder: Path) -> None:
    """Write the bundled policy with limits that one machine's load does not reach."""
    yaml = YAML(typ="rt")
    policy = yaml.load((bundled_policies() / "arcade.yaml").read_text())
    policy["limits"] = {
        "player": {"per_minute": 600, "burst": 100},
        "address": {"per_minute": 10**7, "burst": 10**6},
    }
    module = bundled_policies() / policy["builds"]["arcade-1"]["simulator"]
    policy["builds"] = {"arcade-1": {"simulator": str(module.resolve())}}
    folder.mkdir()
    with (folder / "arcade.yaml").open("w") as file:
        yaml.dump(policy, file)


@lru_cache(maxsize=1)
def _played(module: Path) -> list[ArcadeRun]:
    """Play runs of medium skill, about twenty seconds each."""
    arcade = Arcade(module)
    return [play(arcade, seed, 0.5, random.Random(seed), 1_200) for seed in range(REAL_RUNS)]


def request_of(tickets: Tickets, simulator: Simulator, authority: str, number: int) -> bytes:
    """Return a whole HTTP request that submits a run of a player of its own."""
    played = _played(simulator.path)[number % REAL_RUNS]
    recording = encode_recording(played.inputs, [*played.checkpoints[:-1], secrets.randbits(64)], 60)
    claim = Claim(played.score, played.ticks, played.stats)
    ticket = ticket_of(simulator, f"p{number:020d}", secrets.randbits(63))
    return signed_request(tickets, ticket, authority, claim, recording)


def ticket_of(simulator: Simulator, player: str, seed: int) -> Ticket:
    """Return the ticket of a run that began a minute ago."""
    now_ms = int(time.time() * 1000)
    return Ticket(
        run=new_run_id(now_ms),
        board="arcade",
        player=player,
        build="arcade-1",
        simulator=bytes.fromhex(simulator.digest.removeprefix("sha256:")),
        seed=seed,
        issued_at_ms=now_ms - 60_000,
        expires_at_ms=now_ms + 3_600_000,
    )


def signed_request(tickets: Tickets, ticket: Ticket, authority: str, claim: Claim, recording: bytes) -> bytes:
    """Return a whole HTTP request that submits a run."""
    keyid, key = tickets.issue(ticket)
    content = {
        "score": claim.score,
        "ticks": claim.ticks,
        "stats": dict(claim.stats),
        "recording": b64encode(recording).decode(),
    }
    body, path = json.dumps(content).encode(), "/v1/boards/arcade/scores"
    created = int(time.time())
    draft = Draft(
        "POST",
        authority,
        path,
        body,
        created,
        created + 300,
        secrets.token_urlsafe(18),
        keyid,
        "scoregate-run",
    )
    headers = {"Host": authority, "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in (headers | sign_hmac_sha256(key, draft)).items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines]).encode() + b"\r\n\r\n" + body


def echo_app() -> web.Application:
    """Return an echo of aiohttp and nothing else, at the path of submissions."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read(), content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/boards/{board}/scores", echo)
    return app


def _serve_bare(port: int) -> None:
    async def run() -> None:
        runner = web.AppRunner(echo_app(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _pause_ms(rounds: list[LoadRound], connections: int) -> int:
    """Return the pause after which connections ask half as often as in these rounds (ms).

    An answer is taken to need a quarter of the time that it needed under full load.
    """
    rate = statistics.median(each.rate for each in rounds)
    p50_ms = statistics.median(each.p50_ms for each in rounds)
    return round(2_000 * connections / rate - p50_ms / 4)


def _report(rounds: list[tuple[LoadRound, LoadRound]], half_loads: list[LoadRound]) -> None:
    for name, side in (
        ("bare aiohttp", [bare for bare, _ in rounds]),
        ("edge", [edge for _, edge in rounds]),
        ("at half load", half_loads),
    ):
        for load_round in side:
            cpu = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in load_round.cpu_s.items())
            print(
                f"{name:13} {load_round.rate:8.0f}/s   p50 {load_round.p50_ms:6.1f} ms   "
                f"p99 {load_round.p99_ms:6.1f} ms   not 2xx {load_round.errors}   CPU: {cpu}"
            )
    bare = statistics.median(bare_round.rate for bare_round, _ in rounds)
    edge = statistics.median(edge_round.rate for _, edge_round in rounds)
    print(f"ratio {edge / bare:.3f}")


if __name__ == "__main__":
    main()
