"""Actors of the demo: they play the real game and send requests, honest or not."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import aiohttp
from scoregate_client import Run, ScoregateClient, encode_recording
from scoregate_client.signing import Parameters, Target, sign_for_run
from yarl import URL

from examples.arcade.players import Arcade, ArcadeRun, play

BOARD: Final = "arcade"
BUILD: Final = "arcade-1"
TICKS_PER_SECOND: Final = 60
CHECKPOINT_TICKS: Final = 60
SIGNATURE_S: Final = 120
"""Seconds for which a signature is valid."""
VERDICT_S: Final = 60.0
"""Longest wait for a verdict, in seconds."""
PATIENCE_S: Final = 60.0
"""Seconds for which an actor offers a submission again to an edge that sheds load."""


class Layer(StrEnum):
    """The layer at which a submission ended."""

    LIMITS = "limits"
    BOUNDS = "bounds"
    SIGNATURE = "signature"
    ANOMALY = "z-score"
    REPLAY = "replay"
    BOARD = "board"


PROBLEM_LAYERS: Final = {
    "quota-exceeded": Layer.LIMITS,
    "temporary-reduced-capacity": Layer.LIMITS,
    "bounds-violation": Layer.BOUNDS,
    "signature-invalid": Layer.SIGNATURE,
    "nonce-reused": Layer.SIGNATURE,
    "run-already-submitted": Layer.SIGNATURE,
    "scope-forbidden": Layer.SIGNATURE,
}

REASON_LAYERS: Final = {"implausible": Layer.BOUNDS, "replay": Layer.REPLAY, "review": Layer.ANOMALY}


@dataclass(frozen=True, slots=True)
class Reply:
    """The gateway's answer to one request."""

    status: int
    document: Mapping[str, Any]
    retry_after_s: int = 1

    @property
    def problem(self) -> str:
        """Return the problem type's name, empty if the request was not refused."""
        return str(self.document.get("type", "")).rpartition("/")[2]

    @property
    def is_shed(self) -> bool:
        """Return whether the edge had no time for the request, whatever it was."""
        return self.problem == "temporary-reduced-capacity"


class Actor:
    """A player with an address, a token and a client. It plays in real time."""

    def __init__(
        self, session: aiohttp.ClientSession, client: ScoregateClient, arcade: Arcade, url: str
    ) -> None:
        self.session = session
        self.client = client
        self.player = ""
        self._arcade = arcade
        self._url = URL(url)

    async def open_run(self) -> Run:
        """Open a run for this actor."""
        return await self.client.open_run(BOARD, BUILD)

    async def play(self, run: Run, skill: float, max_ticks: int, *, in_real_time: bool = True) -> ArcadeRun:
        """Play a run to its end, by default for as long as it takes on a screen."""
        began = time.monotonic()
        rng = random.Random(run.seed)
        played = await asyncio.to_thread(play, self._arcade, run.seed, skill, rng, max_ticks)
        if in_real_time:
            await asyncio.sleep(max(0.0, began + played.ticks / TICKS_PER_SECOND - time.monotonic()))
        return played

    async def send(
        self, run: Run, claim: Mapping[str, Any], *, key: bytes | None = None, token: str | None = None
    ) -> Reply:
        """Send a submission signed with `key`, by default the run's own, and return the answer."""
        return await self.send_bytes(*self.sign(run, claim, key or run.key), token=token)

    def sign(self, run: Run, claim: Mapping[str, Any], key: bytes) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a signed submission."""
        body, now_s = json.dumps(claim).encode(), int(time.time())
        target = Target("POST", f"{self._url.host}:{self._url.port}", f"/v1/boards/{BOARD}/scores")
        nonce = secrets.token_urlsafe(18)
        parameters = Parameters(now_s, now_s + SIGNATURE_S, nonce, run.ticket, "scoregate-run", "hmac-sha256")
        return body, sign_for_run(key, target, body, parameters)

    async def send_bytes(self, body: bytes, headers: Mapping[str, str], *, token: str | None = None) -> Reply:
        """Send exactly these bytes, again while the edge sheds load, and return the answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            reply = await self.post(body, headers, token=token)
            if not reply.is_shed or time.monotonic() > deadline:
                return reply
            await asyncio.sleep(reply.retry_after_s)

    async def post(self, body: bytes, headers: Mapping[str, str], *, token: str | None = None) -> Reply:
        """Send exactly these bytes once and return the answer."""
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        scores = self._url / "v1" / "boards" / BOARD / "scores"
        async with self.session.post(scores, data=body, headers={**headers, **bearer}) as response:
            retry_after_s = int(response.headers.get("Retry-After", "1"))
            return Reply(response.status, json.loads(await response.read()), retry_after_s)

    async def ending(self, reply: Reply) -> Layer:
        """Wait for the verdict on the submission behind `reply` and return the layer at which it ended.

        Raises TimeoutError after VERDICT_S.
        """
        if reply.problem:
            return PROBLEM_LAYERS[reply.problem]
        deadline = time.monotonic() + VERDICT_S
        while time.monotonic() < deadline:
            status = await self.client.submission(str(reply.document["submission"]))
            if status.state == "promoted":
                return Layer.BOARD
            if status.state in {"rejected", "held"}:
                return REASON_LAYERS[status.reason or ""]
            await asyncio.sleep(0.2)
        raise TimeoutError(f"no verdict on {reply.document['submission']} within {VERDICT_S:g} s")


@dataclass(frozen=True, slots=True)
class DemoGame:
    """A running gateway and the game that its actors play."""

    url: str
    arcade: Arcade

    @asynccontextmanager
    async def actor(self, name: str, number: int) -> AsyncIterator[Actor]:
        """Create a player of that name, with an address of its own that `number` decides."""
        headers = {"X-Forwarded-For": f"198.51.{100 + number // 250}.{number % 250 + 1}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            client = ScoregateClient(self.url, session=session)
            actor = Actor(session, client, self.arcade, self.url)
            actor.player = (await client.create_player(name)).player
            yield actor


def open_game(url: str, module: Path) -> DemoGame:
    """Compile the game and return it with the gateway at `url`."""
    return DemoGame(url, Arcade(module))


def claim_of(played: ArcadeRun, **changed: Any) -> dict[str, Any]:
    """Return the honest claim for a played run, with the fields in `changed` replaced."""
    recording = encode_recording(played.inputs, played.checkpoints, CHECKPOINT_TICKS)
    honest = {
        "score": played.score,
        "ticks": played.ticks,
        "stats": dict(played.stats),
        "recording": b64encode(recording).decode(),
    }
    return honest | changed


def with_inputs(played: ArcadeRun, inputs: list[int]) -> ArcadeRun:
    """Return the same result with other inputs, as a tamperer would send it."""
    return replace(played, inputs=inputs)
