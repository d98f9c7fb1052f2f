"""The live feed of a board, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from .connection import refusal_of
from .errors import UNREACHED, ScoregateError, no_answer

SILENCE_S = 45.0
"""A connection that is silent for longer is lost: the gateway sends something every 15 seconds."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FEED_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_S)

Connect = Callable[[str | None], Awaitable[aiohttp.ClientResponse]]
"""Opens the feed after the event of an id; None means from now on."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event and its data: `begin` or `reset` (read the board now), `standing`, `rank` or `overtaken`.

    Resume from `id` once you have handled everything up to this event. It is None if the change has more
    events, and empty if the board has no entry to resume from yet.
    """

    kind: str
    id: str | None
    data: dict[str, Any]


async def follow(connect: Connect, after: str | None, attempts: int) -> AsyncGenerator[FeedEvent, None]:
    """Yield events for ever, and reconnect after the last id when a connection ends.

    Raises ScoregateError for a refusal, and after `attempts` failures in a row.
    """
    last, failures = after, 0
    while True:
        asked_s = None
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
        except UNREACHED as error:
            failures += 1
            if failures >= attempts:
                raise no_answer(error) from error
        except ScoregateError as refusal:
            failures += 1
            if refusal.status != HTTPStatus.SERVICE_UNAVAILABLE or failures >= attempts:
                raise
            asked_s = refusal.retry_after_s
        pause_s = FIRST_PAUSE_S * 2**failures if asked_s is None else asked_s
        await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))


async def _refuse(response: aiohttp.ClientResponse) -> None:
    if response.status == HTTPStatus.OK and response.content_type == "text/event-stream":
        return
    raise await refusal_of(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[FeedEvent, None]:
    """Yield the events of one connection. An event without a kind only advances the id."""
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
