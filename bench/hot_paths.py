"""The paths that cost most, each in one process, so that instructions can be counted and stacks sampled.

`prepare` writes what a path needs, in a process that is not measured. What `PATHS` has for it then does so
many units. An edge and its client share the process and its event loop. What an edge does now and then is
left out: how often that comes depends on the load of the machine.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import secrets
import socket
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from scoregate_client import encode_recording

from bench.board.filling import BOARD, WINDOWS, fill, player_of, ranking_of
from bench.edge import write_policy
from examples.arcade.players import Arcade, ArcadeRun, play
from gateway import edge_wiring, wiring
from gateway.catalogue import outdated_boards
from gateway.edge.auth.keyring import keyring_of
from gateway.edge.auth.signing import Draft, sign_hmac_sha256
from gateway.edge.auth.tickets import Ticket, Tickets, new_run_id
from gateway.edge.context import Edge
from gateway.edge.listening import listen
from gateway.index import keys
from gateway.index.connection import connect
from gateway.runtime.settings import Settings
from policies.loader import Simulator
from replay.simulators.sandbox import Sandbox
from replay.worker.verifier import Verifier
from tests.support.policies import write_policies

AUTHORITY: Final = "localhost:8300"
"""The host that requests name. They are sent over a Unix socket, so nobody listens there."""

TOGETHER: Final = 16
"""Requests that come at the same moment, and runs of a job."""

TICKS: Final = 600
ENTRIES: Final = 2_000
"""Entries of the board that is read. A unit is the surroundings of another player, and the first hundred."""

PATIENT_S: Final = 60.0
"""Time to answer. Under valgrind everything takes fifty times as long, and nothing is to be refused."""

ANSWER_BYTES: Final = 1 << 20

Perform = Callable[[int], Awaitable[None]]
"""Does so many units of a path."""


def settings_of(folder: Path, redis_url: str) -> Settings:
    """Return the settings of the parts on a path."""
    return Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=redis_url,
        bind=AUTHORITY,
        answer_within_s=PATIENT_S,
        redis_timeout_ms=10_000,
        read_budget_ms=1_000_000,
    )


def prepare(settings: Settings, count: int) -> None:
    """Write the boards, fill the one that is read, and play `count` honest runs."""
    write_policy(settings.policies_dir)
    write_policies(settings.policies_dir, ranking_of().policy.model_dump(mode="json", exclude_defaults=True))
    arcade = Arcade(_simulator(settings).path)
    runs = [play(arcade, seed, 0.5, random.Random(seed), TICKS) for seed in range(count)]
    settings.data_dir.mkdir()
    (settings.data_dir / "runs").write_bytes(pickle.dumps([_claim(run) for run in runs]))
    asyncio.run(_fill(settings))


async def _fill(settings: Settings) -> None:
    """Put the entries into the index, and say that it has all of the other board."""
    redis = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    await fill(redis, ranking_of(), ENTRIES, WINDOWS)
    await redis.set(keys.sentinel("arcade"), "1")
    await redis.aclose()


@asynccontextmanager
async def _submitting(settings: Settings) -> AsyncIterator[Perform]:
    """Answer signed submissions of real runs, each of a player of its own."""
    async with _edge(settings) as edge, _client(edge) as client:
        requests = iter(list(_submissions(settings)))

        async def perform(units: int) -> None:
            await client.send(list(islice(requests, units)), b"202")

        yield perform


@asynccontextmanager
async def _judging(settings: Settings) -> AsyncIterator[Perform]:
    """Lease, replay, examine, settle and show such submissions, a job at a time."""
    async with _edge(settings) as edge, _client(edge) as client:
        bodies = await client.send(list(_submissions(settings)), b"202")
        names = iter([json.loads(body)["submission"] for body in bodies])
        with Sandbox() as sandbox:
            verifier = Verifier(
                settings, edge.catalogue, edge.ledger, edge.index, sandbox, recordings=edge.recordings
            )

            async def perform(units: int) -> None:
                for _ in range(0, units, TOGETHER):
                    await verifier.verify_all(list(islice(names, TOGETHER)))
                    await edge.index.drained()

            yield perform


@asynccontextmanager
async def _reading(settings: Settings) -> AsyncIterator[Perform]:
    """Answer readers: the surroundings of a player, and the first hundred."""
    async with _edge(settings) as edge, _client(edge) as client:
        top = _read("?limit=100")
        surroundings = (_read(f"/{player_of(number)}/around?radius=5") for number in range(ENTRIES))

        async def perform(units: int) -> None:
            requests = [each for around in islice(surroundings, units) for each in (around, top)]
            await client.send(requests, b"200")

        yield perform


@asynccontextmanager
async def _reading_again(settings: Settings) -> AsyncIterator[Perform]:
    """Answer readers of pages that are kept: the surroundings of some players, and the first hundred."""
    async with _edge(settings) as edge, _client(edge) as client:
        around = (_read(f"/{player_of(number)}/around?radius=5") for number in range(1, TOGETHER))
        pages = [_read("?limit=100"), *around]
        await client.send(pages, b"200")

        async def perform(units: int) -> None:
            await client.send(list(islice(cycle(pages), units)), b"200")

        yield perform


PATHS: Final[Mapping[str, Callable[[Settings], AbstractAsyncContextManager[Perform]]]] = {
    "submission": _submitting,
    "verdict": _judging,
    "read": _reading,
    "kept": _reading_again,
}


@asynccontextmanager
async def _edge(settings: Settings) -> AsyncIterator[Edge]:
    """Run an edge that does nothing but answer."""
    with (
        patch.object(edge_wiring, "in_background", _at_rest),
        patch.object(wiring, "in_background", _at_rest),
        patch.object(outdated_boards, "LOOK_S", float("inf")),  # under valgrind each request is a second late
    ):
        async with edge_wiring.open_edge(settings) as edge:
            yield edge


@asynccontextmanager
async def _at_rest(work: Any, *, name: str) -> AsyncIterator[None]:  # noqa: ARG001 - as `in_background`
    work.close()
    yield


@asynccontextmanager
async def _client(edge: Edge) -> AsyncIterator[_Client]:
    path = edge.settings.data_dir / "edge.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        async with listen(edge, [listener]):
            client = _Client(path)
            yield client
            client.close()


class _Client:
    """Connections of the same process, on which as many requests come together."""

    def __init__(self, path: Path) -> None:
        self._sockets = [socket.socket(socket.AF_UNIX) for _ in range(TOGETHER)]
        for each in self._sockets:
            each.connect(str(path))
            each.setblocking(False)  # noqa: FBT003 - the standard library has no keyword here

    async def send(self, requests: list[bytes], status: bytes) -> list[bytes]:
        """Send the requests, and return the bodies of the answers, each of which must have this status."""
        bodies: list[bytes] = []
        for first in range(0, len(requests), TOGETHER):
            some = list(zip(self._sockets, requests[first : first + TOGETHER], strict=False))
            for each, request in some:
                each.send(request)  # before the loop turns, so that all of them meet
            bodies += [await self._answer(each, status) for each, _ in some]
        return bodies

    async def _answer(self, sock: socket.socket, status: bytes) -> bytes:
        loop, answer = asyncio.get_running_loop(), b""
        while b"\r\n\r\n" not in answer:
            answer += await loop.sock_recv(sock, ANSWER_BYTES)
        head, _, body = answer.partition(b"\r\n\r\n")
        if head[9:12] != status:
            raise RuntimeError(f"unexpected: {answer!r}")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += await loop.sock_recv(sock, ANSWER_BYTES)
        return body

    def close(self) -> None:
        """Close the connections."""
        for each in self._sockets:
            each.close()


def _read(path: str) -> bytes:
    return f"GET /v1/boards/{BOARD}/entries{path} HTTP/1.1\r\nHost: {AUTHORITY}\r\n\r\n".encode()


def _simulator(settings: Settings) -> Simulator:
    return wiring.load_policies(settings)["arcade"].simulators["arcade-1"]


def _submissions(settings: Settings) -> Iterator[bytes]:
    """Sign the runs now: a signature is good for minutes, and valgrind starts slowly."""
    claims = pickle.loads((settings.data_dir / "runs").read_bytes())  # noqa: S301 - our own
    tickets, simulator = Tickets(keyring_of(settings)), _simulator(settings)
    return (_submission(tickets, simulator, seed, claim) for seed, claim in enumerate(claims))


def _submission(tickets: Tickets, simulator: Simulator, seed: int, claim: Mapping[str, object]) -> bytes:
    """Return a whole HTTP request that submits an honest run of a player of its own."""
    now_ms = int(time.time() * 1000)
    keyid, key = tickets.issue(_ticket(simulator, seed, now_ms))
    body, path = json.dumps(claim).encode(), "/v1/boards/arcade/scores"
    created, nonce = now_ms // 1000, secrets.token_urlsafe(18)
    draft = Draft("POST", AUTHORITY, path, body, created, created + 300, nonce, keyid, "scoregate-run")
    headers = {"Host": AUTHORITY, "Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in (headers | sign_hmac_sha256(key, draft)).items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines]).encode() + b"\r\n\r\n" + body


def _ticket(simulator: Simulator, seed: int, now_ms: int) -> Ticket:
    return Ticket(
        run=new_run_id(now_ms),
        board="arcade",
        player=f"p{seed:020d}",
        build="arcade-1",
        simulator=bytes.fromhex(simulator.digest.removeprefix("sha256:")),
        seed=seed,
        issued_at_ms=now_ms - 60_000,
        expires_at_ms=now_ms + 3_600_000,
    )


def _claim(played: ArcadeRun) -> Mapping[str, object]:
    recording = encode_recording(played.inputs, played.checkpoints, 60)
    named = {"score": played.score, "ticks": played.ticks, "stats": dict(played.stats)}
    return {**named, "recording": b64encode(recording).decode()}
