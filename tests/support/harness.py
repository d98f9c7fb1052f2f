"""A real edge with a port, Valkey and ledger, and an honest client that can be made to lie."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import generate_latest
from redis import Redis

from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.auth.signing import Draft, sign_ed25519, sign_hmac_sha256
from gateway.edge.context import Edge
from gateway.edge.health.gauges import measure_ledger
from gateway.edge.listening import listen
from gateway.edge_wiring import open_edge
from gateway.index import keys
from gateway.index.scripts import index_boundary
from gateway.ledger import queries
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REGISTRY
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from policies.errors import IndexUnavailable
from replay.simulators import Simulators
from replay.worker.verifier import Verifier
from scoregate.light import DEFAULT_BIND
from tests.support import moderators
from tests.support.clock import ShiftedClock
from tests.support.counting import counts
from tests.support.game import BUILD, play_run
from tests.support.ports import free_port

POLICY = Path(__file__).parents[2] / "policies" / "arcade.yaml"


@dataclass
class Answer:
    """A response, read whole."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def problem(self) -> str:
        """The last segment of the problem type; empty for what is none."""
        return (
            self.body["type"].rsplit("/", 1)[1]
            if "problem+json" in self.headers.get("Content-Type", "")
            else ""
        )


@dataclass
class Run:
    """An open run with everything a client is told of it."""

    info: dict[str, Any]
    token: str

    @property
    def id(self) -> str:
        return str(self.info["run"])

    @property
    def key(self) -> bytes:
        return base64.b64decode(self.info["key"])

    @property
    def player(self) -> str:
        return str(self.info["player"])


@dataclass
class Request:
    """A signed request about to be sent; every part can be changed between signing and sending."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Harness:
    """The edge under test, and hands to touch it with."""

    def __init__(
        self, edge: Edge, clock: ShiftedClock, session: aiohttp.ClientSession, authority: str
    ) -> None:
        self.edge = edge
        self.clock = clock
        self.session = session
        self.authority = authority
        self.url = f"http://{authority}"
        self._moderators: dict[Any, tuple[str, int]] = {}

    async def send(self, request: Request) -> Answer:
        async with self.session.request(
            request.method, self.url + request.path, data=request.body, headers=request.headers
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, token: str | None = None) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.session.get(self.url + path, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def ready(self) -> Answer:
        """What `/readyz` says of this moment, and not of a second ago."""
        self.edge.probes.forget()
        return await self.get("/readyz")

    async def metrics(self) -> str:
        """What a scrape would say of this moment."""
        await measure_ledger(self.edge)
        return generate_latest(REGISTRY).decode()

    async def post(self, path: str, body: Any, token: str | None = None) -> Answer:
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        if path.startswith("/v1/moderation/"):
            headers |= await self.as_seen(path, token)
        return await self.send(Request("POST", path, json.dumps(body).encode(), headers))

    async def as_seen(self, decision: str, token: str | None) -> dict[str, str]:
        """The precondition of a decision by somebody who has just read the case."""
        case = await self.get(decision.rpartition("/")[0], token)
        return {"If-Match": case.headers.get("ETag", '"0"')}

    async def put_octets(self, path: str, body: bytes, token: str | None, **headers: str) -> Answer:
        headers = {"Content-Type": "application/octet-stream"} | headers
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        return await self.send(Request("PUT", path, body, headers))

    async def new_player(self, name: str = "Ada") -> str:
        """The token of a new player."""
        answer = await self.post("/v1/players", {"name": name})
        assert answer.status == 201, answer.raw
        return str(answer.body["token"])

    async def open_run(self, token: str | None = None, board: str = "arcade") -> Run:
        token = token or await self.new_player()
        answer = await self.post(f"/v1/boards/{board}/runs", {"build": BUILD}, token)
        assert answer.status == 201, answer.raw
        return Run(answer.body, token)

    async def played(self, token: str | None = None, **how: Any) -> tuple[Run, dict[str, Any]]:
        """A run, played honestly, with the clock moved on by the time it took."""
        run = await self.open_run(token)
        claim = play_run(run.info["seed"], **how)
        self.clock.shift(claim["ticks"] / 60)
        return run, claim

    def signed(
        self,
        run: Run,
        claim: Any,
        *,
        board: str = "arcade",
        key: bytes | None = None,
        keyid: str | None = None,
        created: int | None = None,
        lifetime_s: int = 60,
        nonce: str | None = None,
        raw: bytes | None = None,
        tag: str = "scoregate-run",
    ) -> Request:
        """A submission, signed by the profile."""
        body = raw if raw is not None else json.dumps(claim).encode()
        created = created if created is not None else self.clock() // 1000
        path = f"/v1/boards/{board}/scores"
        draft = Draft(
            method="POST",
            authority=self.authority,
            path=path,
            body=body,
            created=created,
            expires=created + lifetime_s,
            nonce=nonce or secrets.token_urlsafe(18),
            keyid=keyid or run.info["ticket"],
            tag=tag,
        )
        headers = sign_hmac_sha256(key or run.key, draft)
        return Request("POST", path, body, {"Content-Type": "application/json"} | headers)

    def server_signed(
        self, private_key: Any, key_id: str, entry: Any, *, board: str = "arcade", **draft: Any
    ) -> Request:
        """A trusted server's write, signed by the profile."""
        body = json.dumps(entry).encode()
        created = draft.pop("created", self.clock() // 1000)
        path = f"/v1/boards/{board}/entries"
        parts = {
            "method": "POST",
            "authority": self.authority,
            "path": path,
            "body": body,
            "created": created,
            "expires": created + 60,
            "nonce": secrets.token_urlsafe(18),
            "keyid": key_id,
            "tag": "scoregate-server",
        }
        headers = sign_ed25519(private_key, Draft(**(parts | draft)))
        return Request("POST", path, body, {"Content-Type": "application/json"} | headers)

    async def as_server(self, private_key: Any, key_id: str, path: str, body: Any, **draft: Any) -> Answer:
        """The answer to a trusted server's POST, signed by the profile."""
        signed = self.server_signed(private_key, key_id, body, path=path, **draft)
        return await self.send(replace(signed, path=path))

    async def submit(self, run: Run, claim: Any, **signing: Any) -> Answer:
        return await self.send(self.signed(run, claim, **signing))

    async def state_of(self, submission_id: str) -> str | None:
        """The state in the ledger, None for no such row."""
        found = await self.edge.ledger.read(queries.submission(submission_id))
        return found.state.value if found else None

    async def rows(self) -> int:
        """How many submissions the ledger has on the arcade board."""
        return sum((await self.edge.ledger.read(counts("arcade"))).values())

    def moderator(self, *boards: str, name: str = "mara", role: ModeratorRole = ModeratorRole.SENIOR) -> str:
        """The token of a moderator with an account, good for an hour on these boards, or on all."""
        now_ms = self.clock()
        text, until_ms = self._moderators.get((name, role, boards), ("", 0))
        if now_ms < until_ms - 60_000:
            return text
        text = moderators.token_of(self.edge.settings, name, role, boards, now_ms=now_ms)
        self._moderators[name, role, boards] = (text, now_ms + moderators.TOKEN_MS)
        return text

    def steward(self, clock: Clock | None = None, jobs: RqJobs | None = None) -> Steward:
        """A steward for this deployment, to be driven round by round."""
        jobs = jobs or RqJobs(Redis.from_url(self.edge.settings.jobs_url))
        edge = self.edge
        parts = {"recordings": edge.recordings, "clock": clock or self.clock}
        return Steward(edge.settings, edge.catalogue, edge.ledger, edge.index, jobs, **parts)

    async def verify(self, *submission_ids: str, sandbox: Simulators) -> int:
        """Judges submissions as a worker would, in this process, with the real sandbox."""
        edge = self.edge
        parts = {"recordings": edge.recordings, "clock": self.clock}
        verifier = Verifier(edge.settings, edge.catalogue, edge.ledger, edge.index, sandbox, **parts)
        await edge.index.drained()
        return await verifier.verify_all(submission_ids)


@asynccontextmanager
async def running_harness(settings: Settings, clock: ShiftedClock | None = None) -> AsyncIterator[Harness]:
    """An edge that answers, until the block ends."""
    assert settings.bind != DEFAULT_BIND, "choose a port, since a developer's own gateway may have this one"
    clock = clock or ShiftedClock()
    async with open_edge(settings, clock=clock) as edge, listen(edge) as (host, port):
        await _say_that_nothing_is_missing(edge)
        async with aiohttp.ClientSession() as session:
            yield Harness(edge, clock, session, f"{host}:{port}")


@asynccontextmanager
async def second_edge(first: Harness) -> AsyncIterator[Harness]:
    """Another edge of the same deployment, which clients reach under the same name."""
    elsewhere = {"bind": f"127.0.0.1:{free_port()}", "hosts": (first.authority,)}
    settings = first.edge.settings.model_copy(update=elsewhere)
    async with open_edge(settings, clock=first.clock) as edge, listen(edge) as (host, port):
        async with aiohttp.ClientSession(headers={"Host": first.authority}) as session:
            second = Harness(edge, first.clock, session, first.authority)
            second.url = f"http://{host}:{port}"
            yield second


async def _say_that_nothing_is_missing(edge: Edge) -> None:
    """Marks the boards of an empty ledger as whole, as a steward's first round does."""
    if await edge.ledger.read(queries.newest_seq()):
        return
    with suppress(IndexUnavailable), index_boundary():
        for board in map(edge.index.of, edge.catalogue.of_files.values()):
            for each in {board, *board.shards}:
                await edge.index.client.set(keys.sentinel(each.board), "1")
