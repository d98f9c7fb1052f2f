"""Measures what the two ways to write cost: verified signatures, and a game server's scores in batches.

    python -m bench.verify [--signatures 20000] [--scores 20000] [--batch 500] [--rounds 5]

First the signature of a real submission: the edge's own code, from the head of a request to a body that is
as it was signed, beside the package `http-message-signatures` and beside `hmac.digest` over the same base.
All run in this process. Then the scores of one trusted server over one connection, each batch once the one
before it was answered, to an edge with its ledger and a Valkey, beside raw ZADDs to the same Valkey, as many
in one pipeline. Requests are signed beforehand. Rounds alternate, and medians are compared. Prints units per
second and the processor time of each; the last line is `ratio R`, of the edge's code to the package.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import uvloop
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import HMAC_SHA256
from redis import Redis

from bench.edge import request_of, write_policy
from bench.load import cpu_seconds, server
from gateway.edge.auth.signatures import COMPONENTS, Tag
from gateway.edge.auth.signed_request import read_signature
from gateway.edge.auth.signing import Draft, sign_ed25519
from gateway.edge.auth.tickets import Tickets
from gateway.edge.context import EDGE, Edge
from gateway.edge.submissions.signed_runs import authenticate_run
from gateway.edge_wiring import open_edge
from gateway.index import keys
from gateway.runtime.settings import Settings
from policies.loader import Board
from scoregate.commands.keys import register
from tests.support.policies import a_policy, write_policies
from tests.support.ports import free_port
from tests.support.valkey import ValkeyServer, running_valkey

DIFFERENT: Final = 500
"""Requests that verifications take in turn, so that no cache has the one that comes."""

SERVER: Final = "eu-1"
BOARD: Final = "vault"
PATH: Final = f"/v1/boards/{BOARD}/entries/batch"


class Cost(NamedTuple):
    """What a unit cost: its share of the time that passed, and the processor time of each process (s)."""

    wall_s: float
    cpu_s: dict[str, float]


@dataclass
class Message:
    """A submission as the package reads one."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class KeysOfRuns(HTTPSignatureKeyResolver):
    """The keys of runs, derived from their tickets as the edge does."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets

    def resolve_public_key(self, key_id: str) -> bytes:
        """Return the key of a ticket's run."""
        return self._tickets.key(key_id)

    def resolve_private_key(self, key_id: str) -> bytes:
        """Return the same key."""
        return self._tickets.key(key_id)


class Verifications:
    """The same submissions, verified in three ways."""

    def __init__(self, edge: Edge, board: Board) -> None:
        self._edge, self._board = edge, board
        self._app = web.Application()
        self._app[EDGE] = edge
        simulator, bind = board.simulators["arcade-1"], edge.settings.bind
        self._messages = [
            _read(request_of(edge.tickets, simulator, bind, number), bind) for number in range(DIFFERENT)
        ]
        resolver = KeysOfRuns(edge.tickets)
        self._verifier = HTTPMessageVerifier(signature_algorithm=HMAC_SHA256, key_resolver=resolver)
        self._bases = [self._base(message) for message in self._messages]

    async def edge(self, count: int) -> Cost:
        """Verify by the code that a submission goes through in an edge."""
        made = [(self._request(message), message.body) for message in self._messages]
        # A request keeps what was read of its head, so each is verified once.
        requests = [(request.clone(), body) for request, body in islice(cycle(made), count)]
        clock = _Clock({"this": os.getpid()})
        for request, body in requests:
            (await authenticate_run(request, self._board)).with_body(body)
        return clock.cost(count)

    async def package(self, count: int) -> Cost:
        """Verify by the package, under the same profile."""
        components = [f'"{name}"' for name in COMPONENTS]
        clock = _Clock({"this": os.getpid()})
        for number in range(count):
            message = self._messages[number % DIFFERENT]
            self._verifier.verify(
                message,
                max_age=timedelta(minutes=5),
                expect_tag=Tag.RUN.value,
                require_components=components,
                body=message.body,
            )
        return clock.cost(count)

    async def raw(self, count: int) -> Cost:
        """Compare with an HMAC over a base that is there already, with a key that is."""
        clock = _Clock({"this": os.getpid()})
        for number in range(count):
            key, base, signature = self._bases[number % DIFFERENT]
            assert hmac.compare_digest(hmac.digest(key, base, "sha256"), signature)
        return clock.cost(count)

    def _request(self, message: Message) -> web.Request:
        path = message.url.partition(self._edge.settings.bind)[2]
        return make_mocked_request(message.method, path, message.headers, app=self._app)

    def _base(self, message: Message) -> tuple[bytes, bytes, bytes]:
        signed = read_signature(self._request(message))
        return self._edge.tickets.key(signed.parsed.keyid), signed.base, signed.parsed.signature


class _Clock:
    """Reads the time, and the processor time of processes by name, from when it is made."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._cpu_s = {name: _cpu_of(pid) for name, pid in pids.items()}
        self._began_s = time.perf_counter()

    def cost(self, count: int) -> Cost:
        """Return what each of so many units cost."""
        wall_s = time.perf_counter() - self._began_s
        cpu_s = {name: (_cpu_of(pid) - self._cpu_s[name]) / count for name, pid in self._pids.items()}
        return Cost(wall_s / count, cpu_s)


def _cpu_of(pid: int) -> float:
    return time.process_time() if pid == os.getpid() else cpu_seconds(pid)  # the kernel's table has 10 ms


def _read(request: bytes, authority: str) -> Message:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    return Message(method, f"http://{authority}{path}", headers, body)


class Writes:
    """Scores of new players: over one connection to an edge, or straight into Valkey."""

    def __init__(
        self, session: aiohttp.ClientSession, settings: Settings, key: Ed25519PrivateKey, size: int
    ) -> None:
        self._session, self._settings, self._key, self._size = session, settings, key, size
        self._players = 0

    async def batches(self, count: int, pids: dict[str, int]) -> Cost:
        """Write scores as a trusted server, one batch after the other."""
        bodies = [json.dumps(self._operations()).encode() for _ in range(count // self._size)]
        requests = [(body, self._signed(body)) for body in bodies]
        clock = _Clock(pids | {"client": os.getpid()})
        for body, headers in requests:
            url = f"http://{self._settings.bind}{PATH}"
            async with self._session.post(url, data=body, headers=headers) as response:
                answer = await response.read()
                assert response.status == 200, answer
        return clock.cost(len(bodies) * self._size)

    async def zadds(self, count: int, pids: dict[str, int]) -> Cost:
        """Write scores with a ZADD each, as many in one pipeline as in a batch."""
        batches = [self._operations() for _ in range(count // self._size)]
        with Redis.from_url(self._settings.redis_url) as client:
            clock = _Clock({"valkey": pids["valkey"], "client": os.getpid()})
            for operations in batches:
                pipeline = client.pipeline(transaction=False)
                for each in operations:
                    pipeline.zadd("bench", {each["player"]: each["score"]})
                pipeline.execute()
            return clock.cost(len(batches) * self._size)

    def _operations(self) -> list[dict[str, Any]]:
        first, self._players = self._players, self._players + self._size
        return [
            {"action": "write", "operation": f"op-{n}", "player": f"p{n:020d}", "score": n * 7_919 % 100_000}
            for n in range(first, self._players)
        ]

    def _signed(self, body: bytes) -> dict[str, str]:
        now_s, nonce = int(time.time()), secrets.token_urlsafe(18)
        about = (now_s, now_s + 300, nonce, SERVER, Tag.SERVER.value)
        return sign_ed25519(self._key, Draft("POST", self._settings.bind, PATH, body, *about))


async def _verifications(folder: Path, valkey: ValkeyServer, options: argparse.Namespace) -> dict[str, Cost]:
    write_policy(folder / "policies")
    async with open_edge(_settings(folder, valkey)) as edge:
        board = await edge.catalogue.board("arcade")
        assert board is not None
        ways = Verifications(edge, board)
        by_name = {"edge": ways.edge, "http-message-signatures": ways.package, "hmac.digest": ways.raw}
        return await _medians(
            {name: partial(way, options.signatures) for name, way in by_name.items()}, options.rounds
        )


async def _writes(folder: Path, valkey: ValkeyServer, options: argparse.Namespace) -> dict[str, Cost]:
    write_policies(folder / "policies", a_policy(BOARD, writes="trusted"))
    settings, key = _settings(folder, valkey), Ed25519PrivateKey.generate()
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    await register(settings, SERVER, public, ("*",))
    environment = {
        "SCOREGATE_DATA_DIR": str(settings.data_dir),
        "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
        "SCOREGATE_REDIS_URL": settings.redis_url,
        "SCOREGATE_BIND": settings.bind,
        "SCOREGATE_LOG_LEVEL": "warning",
    }
    with valkey.client() as client:
        client.set(keys.sentinel(BOARD), "1")  # as a steward's first round does
    command = [sys.executable, "-m", "scoregate", "serve"]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        with server(command, environment, int(settings.bind.rpartition(":")[2])) as pid:
            pids = {"edge": pid, "valkey": valkey.pid}
            writes = Writes(session, settings, key, options.batch)
            await writes.batches(options.batch, pids)
            return await _medians(
                {
                    "edge, batches": partial(writes.batches, options.scores, pids),
                    "ZADD, pipelined": partial(writes.zadds, options.scores, pids),
                },
                options.rounds,
            )


def _settings(folder: Path, valkey: ValkeyServer) -> Settings:
    return Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        log_level="warning",
    )


async def _medians(ways: dict[str, Callable[[], Awaitable[Cost]]], rounds: int) -> dict[str, Cost]:
    """Return what a unit cost in each way, each round of each in turn."""
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            costs[name].append(await way())
    return {name: _median(each) for name, each in costs.items()}


def _median(costs: Sequence[Cost]) -> Cost:
    cpu_s = {part: statistics.median(cost.cpu_s[part] for cost in costs) for part in costs[0].cpu_s}
    return Cost(statistics.median(cost.wall_s for cost in costs), cpu_s)


def _report(unit: str, costs: dict[str, Cost]) -> None:
    """Print each way, and the ratios of the first to the others."""
    for name, cost in costs.items():
        cpu = ", ".join(f"{part} {seconds * 1e6:.2f} µs" for part, seconds in cost.cpu_s.items())
        print(f"{name:24}{1 / cost.wall_s:12,.0f} {unit}/s   processor for each: {cpu}")
    first, *others = costs
    for other in others:
        print(f"{first} to {other}: {_ratio(costs, first, other):.3g}", flush=True)


def _ratio(costs: dict[str, Cost], one: str, other: str) -> float:
    return costs[other].wall_s / costs[one].wall_s


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--signatures", type=int, default=20_000, help="in each round")
    parser.add_argument("--scores", type=int, default=20_000, help="in each round")
    parser.add_argument("--batch", type=int, default=500, help="scores in one request, at most 500")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sgb-") as name, running_valkey() as valkey:
        folder = Path(name)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            (folder / "runs").mkdir()
            (folder / "server").mkdir()
            verified = runner.run(_verifications(folder / "runs", valkey, options))
            _report("verifications", verified)
            _report("scores", runner.run(_writes(folder / "server", valkey, options)))
    print(f"ratio {_ratio(verified, 'edge', 'http-message-signatures'):.3g}")


if __name__ == "__main__":
    main()
