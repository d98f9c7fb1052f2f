"""A board's changes over Server-Sent Events, resumable by `Last-Event-ID`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import player_of
from gateway.edge.live.feed_request import FeedRequest, feed_request_of, hold_seat, open_feed, wants_friends
from gateway.edge.live.heartbeats import send_in_time, with_heartbeats
from gateway.edge.live.messages import as_sse, sse_heartbeat
from gateway.edge.problems import COMMON_HEADERS
from gateway.edge.reads.read_budget import player_asking
from gateway.index.feed.live_feed import Subscription

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

RETRY: Final = b"retry: 2000\n\n"
"""The field by which a browser reconnects after 2000 ms."""


EVENT_STREAM: Final = {
    **COMMON_HEADERS,
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
"""The headers of a stream of events."""


async def follow_board(request: web.Request) -> web.StreamResponse:
    """Send the board's events until the listener leaves or falls too far behind."""
    edge, player = request.app[EDGE], await player_of(request) if wants_friends(request) else None
    feed_request = await feed_request_of(request, player)
    with hold_seat(request):
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        async with open_feed(edge, feed_request, "sse") as feed:
            await send_in_time(request, response.write(RETRY))
            await _copy(request, response, feed_request, feed)
    return response


async def _copy(
    request: web.Request, response: web.StreamResponse, feed_request: FeedRequest, feed: Subscription
) -> None:
    leaving, listener = cast("Connection", request.protocol).lost(), player_asking(request)
    board, bearer = feed_request.board, feed_request.bearer
    told = with_heartbeats(request.app[EDGE], board, feed, leaving, listener=listener, bearer=bearer)
    async with aclosing(told) as batches:
        async for events in batches:
            data = b"".join(map(as_sse, events)) if events else sse_heartbeat(feed.position)
            await send_in_time(request, response.write(data))
