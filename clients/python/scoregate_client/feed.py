"""The live feed of a board, over as many connections as it takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from .connection import refusal_of
from .documents import document_of
from .errors import ScoregateError, no_answer
from .retrying import MOST_DOUBLINGS
from .transport import HttpAnswer, HttpStream, Unanswered

SILENCE_S: Final = 45.0
"""A connection that is silent for longer is lost: the gateway sends something every 15 seconds."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LINE_BYTES: Final = 256 * 1024
"""The longest line of a feed. An event has about half a kilobyte."""

Connect = Callable[[str | None], AbstractAsyncContextManager[HttpStream]]
"""Opens the feed after the event of an id; None means from now on."""
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event and its data: `begin` or `reset` (read the board now), `standing`, `rank` or `overtaken`.

    Resume from `id` once you have handled everything up to this event. It is None if the change has more
    events, and empty if the board has no entry to resume from yet.
    """

    kind: str
    id: str | None
    data: dict[str, Any]


async def follow(
    connect: Connect, after: str | None, attempts: int, sleep: Sleep
) -> AsyncGenerator[FeedEvent, None]:
    """Yield events for ever, and reconnect after the last id when a connection ends.

    Raises ScoregateError for a refusal, and after `attempts` failures in a row.
    """
    last, failures = after, 0
    while True:
        asked_s = None
        try:
            async with connect(last) as stream:
                await _refuse(stream)
                async with aclosing(_events(stream)) as events:
                    async for event in events:
                        failures = 0
                        if event.id is not None:
                            last = event.id or None
                        if event.kind:
                            yield event
        except Unanswered as error:
            failures += 1
            if failures >= attempts:
                raise no_answer(error) from error
        except ScoregateError as refusal:
            failures += 1
            if refusal.status != HTTPStatus.SERVICE_UNAVAILABLE or failures >= attempts:
                raise
            asked_s = refusal.retry_after_s
        pause_s = FIRST_PAUSE_S * 2.0 ** min(failures, MOST_DOUBLINGS) if asked_s is None else asked_s
        await sleep(min(pause_s, LONGEST_PAUSE_S))


async def _refuse(stream: HttpStream) -> None:
    kind = stream.headers.get("content-type", "").partition(";")[0].strip().lower()
    if stream.status == HTTPStatus.OK and kind == "text/event-stream":
        return
    body = b""
    async for chunk in stream.chunks:
        body += chunk
        if len(body) > LINE_BYTES:
            break
    raise refusal_of(HttpAnswer(stream.status, stream.headers, body), 0.0)


async def _lines(stream: HttpStream) -> AsyncGenerator[str, None]:
    """Yield the lines of a stream. Raises Unanswered for what no gateway sends."""
    rest = b""
    async for chunk in stream.chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES:
            raise Unanswered("a line of the feed is too long")
        for line in lines:
            try:
                yield line.decode("utf-8").rstrip("\r")
            except UnicodeDecodeError as error:
                raise Unanswered("a line of the feed is not UTF-8") from error


async def _events(stream: HttpStream) -> AsyncGenerator[FeedEvent, None]:
    """Yield the events of one connection. An event without a kind only advances the id."""
    kind, data = "", "{}"
    stream_id: str | None = None
    async with aclosing(_lines(stream)) as lines:
        async for line in lines:
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
                    yield FeedEvent(kind, stream_id, document_of(data.encode()))
                kind, stream_id, data = "", None, "{}"
