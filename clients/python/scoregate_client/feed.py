"""The live feed of a board: events as they come, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from .errors import ScoregateError

SILENCE_S = 45.0
"""The gateway sends something every 15 seconds; a connection that is silent for longer than this is lost."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FEED_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_S)

Connect = Callable[[str | None], Awaitable[aiohttp.ClientResponse]]
"""Opens the feed after the event of an id, None for from now on."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event: `begin`, `reset` (for both: read the board now), `standing`, `rank` or `overtaken`, with its data.

    `id` is where to resume once all up to this event was dealt with: None if its change has more events, empty if the
    board has no entry to resume from yet.
    """

    kind: str
    id: str | None
    data: dict[str, Any]


async def follow(connect: Connect, after: str | None, attempts: int) -> AsyncGenerator[FeedEvent, None]:
    """The events for ever: a connection that ends is made anew, and goes on after the last id.

    Raises ScoregateError for a refusal, and what keeps a connection from being made `attempts` times in a row.
    """
    last, failures = after, 0
    while True:
        try:
            response = await connect(last)
            async with response:
                await _refuse(response)
                async with aclosing(_events(response)) as events:
                    async for event in events:
                        failures = 0
                        if event.id is not None:
                            last = event.id or None
                        if event.kind:
                            yield event
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError):
            failures += 1
            if failures >= attempts:
                raise
        except ScoregateError as refusal:
            failures += 1
            if refusal.status != HTTPStatus.SERVICE_UNAVAILABLE or failures >= attempts:
                raise
        await asyncio.sleep(min(FIRST_PAUSE_S * 2**failures, LONGEST_PAUSE_S))


async def _refuse(response: aiohttp.ClientResponse) -> None:
    if response.status == HTTPStatus.OK and response.content_type == "text/event-stream":
        return
    try:
        document = json.loads(await response.read())
    except ValueError:
        document = {}
    raise ScoregateError(response.status, document if isinstance(document, dict) else {})


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[FeedEvent, None]:
    """The events of one connection; one without a kind only moves the id on."""
    kind, data = "", "{}"
    stream_id: str | None = None
    async for raw in response.content:
        line = raw.decode("utf-8").rstrip("\r\n")
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "id":
            stream_id = value
        elif field == "data":
            data = value
        elif not line:
            if kind or stream_id is not None:
                yield FeedEvent(kind, stream_id, json.loads(data))
            kind, stream_id, data = "", None, "{}"
