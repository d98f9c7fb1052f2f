"""An endpoint that webhooks are delivered to: it checks each signature with the standard's own library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from gateway.derived.webhooks.webhook_signatures import written
from tests.support.ports import free_port

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Received:
    """One attempt that arrived."""

    id: str
    type: str
    data: dict[str, Any]
    is_signed: bool
    timestamp: str
    headers: Mapping[str, str]


class Receiver:
    """What arrived, and how it is answered."""

    def __init__(self, port: int, secret: bytes) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.received: list[Received] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.held = asyncio.Event()
        self.held.set()
        self.at_once = 0
        self.most_at_once = 0
        self._came = asyncio.Event()
        self._verifier = Verifier(written(secret))

    def types(self) -> list[str]:
        return [each.type for each in self.received]

    async def arrived(self, count: int) -> None:
        """Returns once so many attempts have come."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.received) < count:
                self._came.clear()
                await self._came.wait()

    async def answer(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._note(request, await request.read())
            await self.held.wait()
            return web.Response(status=self.status, headers=self.headers)
        finally:
            self.at_once -= 1

    def _note(self, request: web.Request, body: bytes) -> None:
        event = json.loads(body)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            self._verifier.verify(body.decode(), headers)
            is_signed = True
        except WebhookVerificationError:
            is_signed = False
        self.received.append(
            Received(
                headers["webhook-id"], event["type"], event["data"], is_signed, event["timestamp"], headers
            )
        )
        self._came.set()


@asynccontextmanager
async def receiving(secret: bytes) -> AsyncIterator[Receiver]:
    """An endpoint that answers, until the block ends."""
    port = free_port()
    receiver = Receiver(port, secret)
    app = web.Application()
    app.router.add_post("/hook", receiver.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        await runner.cleanup()
