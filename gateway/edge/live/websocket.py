"""A board's changes over WebSocket, for listeners without event streams and for browsers with a token."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, suppress
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE
from gateway.edge.http.request import player_by_token, player_of
from gateway.edge.live.feed_request import (
    FeedRequest,
    feed_request_of,
    hold_seat,
    open_feed,
    refuse_other_sites,
    wants_friends,
)
from gateway.edge.live.heartbeats import HEARTBEAT_S, send_in_time, with_heartbeats
from gateway.edge.live.messages import as_message, position_message
from gateway.edge.problems import Problem, ProblemType
from gateway.index.feed.listener import FeedEnd
from gateway.index.feed.live_feed import Subscription
from gateway.runtime.metering import on_account
from policies.errors import LedgerUnavailable

PROTOCOL: Final = "scoregate.v1"
"""The subprotocol of the feed."""

BEARER_PREFIX: Final = "bearer."
"""The prefix of a subprotocol that carries a token, since a page can set no other field of a handshake."""

MESSAGE_BYTES: Final = 1024
"""The longest message that is read from a client, which should send none."""

CLOSE_S: Final = 2.0
"""Time that a client has to answer a close, so that it does not hold up a shutdown."""

_KEY: Final = re.compile(r"[A-Za-z0-9+/]{22}==")
_CODES: Final = {
    FeedEnd.BEHIND: WSCloseCode.TRY_AGAIN_LATER,
    FeedEnd.RELEASED: WSCloseCode.GOING_AWAY,
    FeedEnd.UNKNOWN_PAST: WSCloseCode.TRY_AGAIN_LATER,
    FeedEnd.DELETED: WSCloseCode.OK,
    FeedEnd.REBUILDING: WSCloseCode.TRY_AGAIN_LATER,
    FeedEnd.UNAUTHORIZED: WSCloseCode.POLICY_VIOLATION,
}


async def follow_board_by_websocket(request: web.Request) -> web.StreamResponse:
    """Send the board's events until the listener leaves, falls too far behind, or sends a message."""
    edge = request.app[EDGE]
    refuse_other_sites(request)
    socket = _handshake(request)
    feed_request = await feed_request_of(request, await _player(request) if wants_friends(request) else None)
    with hold_seat(request):
        await socket.prepare(request)
        async with open_feed(edge, feed_request, "websocket") as feed:
            code, reason = await _converse(request, socket, feed_request, feed)
    await socket.close(code=code, message=reason.encode())
    return socket


def _handshake(request: web.Request) -> web.WebSocketResponse:
    """Return the answer to a handshake. Raises `malformed-request` for another request or subprotocol."""
    socket = web.WebSocketResponse(
        protocols=(PROTOCOL,),
        heartbeat=HEARTBEAT_S,
        max_msg_size=MESSAGE_BYTES,
        compress=False,
        timeout=CLOSE_S,
    )
    # Before `can_prepare`, which logs the offered subprotocols, and so a token, if it knows none of them.
    if (offered := _offered(request)) and PROTOCOL not in offered:
        raise Problem(ProblemType.MALFORMED_REQUEST, f"Sec-WebSocket-Protocol: expected {PROTOCOL}")
    has_key = _KEY.fullmatch(request.headers.get("Sec-WebSocket-Key", ""))
    if not has_key or not socket.can_prepare(request):
        raise Problem(ProblemType.MALFORMED_REQUEST, "expected the handshake of a WebSocket (RFC 6455)")
    return socket


def _offered(request: web.Request) -> list[str]:
    line = request.headers.get("Sec-WebSocket-Protocol")
    return [part.strip() for part in line.split(",")] if line is not None else []


async def _player(request: web.Request) -> Bearer:
    """Return the player whose token was offered as a subprotocol, or is in `Authorization`."""
    tokens = [
        protocol.removeprefix(BEARER_PREFIX)
        for protocol in _offered(request)
        if protocol.startswith(BEARER_PREFIX)
    ]
    return await (player_by_token(request, tokens[0]) if tokens else player_of(request))


async def _converse(
    request: web.Request, socket: web.WebSocketResponse, feed_request: FeedRequest, feed: Subscription
) -> tuple[int, str]:
    """Send events until the feed ends or the client leaves; return the code and reason to close with."""
    sender = asyncio.create_task(on_account(_send_events(request, socket, feed_request, feed)))
    receiver = asyncio.create_task(_receive(socket))
    try:
        await asyncio.wait([sender, receiver], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sender, receiver):
            task.cancel()
        await asyncio.wait([sender, receiver])
    for task in (receiver, sender):
        if not task.cancelled():
            return task.result()
    raise AssertionError("one of the tasks has ended")


async def _send_events(
    request: web.Request, socket: web.WebSocketResponse, feed_request: FeedRequest, feed: Subscription
) -> tuple[int, str]:
    """Send events until the feed ends; return the code and reason to close with.

    Raises ConnectionResetError if the client reads nothing for STALLED_S.
    """
    listener = ""
    with suppress(Problem, LedgerUnavailable):
        listener = (await _player(request)).subject
    board, bearer = feed_request.board, feed_request.bearer
    told = with_heartbeats(request.app[EDGE], board, feed, listener=listener, bearer=bearer)
    async with aclosing(told) as batches:
        async for events in batches:
            for event in events:
                await send_in_time(request, socket.send_str(as_message(event)))
            if not events and feed.position:
                await send_in_time(request, socket.send_str(position_message(feed.position)))
    end = feed.end or FeedEnd.RELEASED
    return _CODES[end], end.value


async def _receive(socket: web.WebSocketResponse) -> tuple[int, str]:
    """Wait until the client leaves or sends a message; return the code and reason to close with."""
    message = await socket.receive()
    if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
        return WSCloseCode.POLICY_VIOLATION, "listeners must not send messages"
    return WSCloseCode.OK, ""
