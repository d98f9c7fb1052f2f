"""The live feed over Server-Sent Events: standings as they change, resumable by `Last-Event-ID`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import orjson
from aiohttp import web

from gateway.boards.live import StandingChange
from gateway.edge.context import EDGE
from gateway.edge.problems import COMMON_HEADERS, Problem, ProblemType
from gateway.edge.reading import board_of
from gateway.telemetry import LISTENERS

HEARTBEAT_S: Final = 15.0
"""A comment is sent when nothing else was, so that proxies keep the connection and dead clients are noticed."""

HEARTBEAT: Final = b": alive\n\n"

STALLED_S: Final = 10.0
"""How long a listener may take nothing of what is sent before its connection is cut."""

_STREAM_ID: Final = re.compile(r"[0-9]{1,15}-[0-9]{1,10}")


async def stream_standings(request: web.Request) -> web.StreamResponse:
    """The board's changes of standings as `event: standing`, until the client leaves or falls too far behind."""
    edge, board = request.app[EDGE], board_of(request)
    after = request.headers.get("Last-Event-ID")
    if after is not None and not _STREAM_ID.fullmatch(after):
        raise Problem(
            ProblemType.MALFORMED_REQUEST, "Last-Event-ID: expected the id of an event of this feed"
        )
    response = web.StreamResponse(
        headers={
            **COMMON_HEADERS,
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    with LISTENERS.track_inprogress():
        async with edge.live.listen(board.name, after) as changes:
            await _send(request, response, b"retry: 2000\n\n")
            await _copy(request, response, changes)
    return response


async def _copy(
    request: web.Request, response: web.StreamResponse, changes: AsyncIterator[StandingChange]
) -> None:
    upcoming = asyncio.ensure_future(anext(changes, None))
    try:
        while True:
            done, _ = await asyncio.wait([upcoming], timeout=HEARTBEAT_S)
            if not done:
                await _send(request, response, HEARTBEAT)
                continue
            change = upcoming.result()
            if change is None:
                return
            await _send(request, response, _event(change))
            upcoming = asyncio.ensure_future(anext(changes, None))
    finally:
        upcoming.cancel()


async def _send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Writes to a listener. Raises ConnectionResetError if it has left, or takes nothing for STALLED_S."""
    try:
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
    except TimeoutError:
        if request.transport:
            request.transport.abort()
        raise ConnectionResetError("the listener takes nothing") from None


def _event(change: StandingChange) -> bytes:
    data = orjson.dumps(
        {
            "player": change.player,
            "name": change.name or change.player,
            "score": change.score,
            "submission": change.submission_id,
            "window": change.window,
            "rank": change.rank,
        }
    )
    return b"event: standing\nid: " + change.stream_id.encode() + b"\ndata: " + data + b"\n\n"
