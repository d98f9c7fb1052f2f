"""The pace of a feed: heartbeats while no events come, and an end to listeners that read nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import Edge
from gateway.edge.live.own_events import without_own
from gateway.index.feed.events import FeedEvent
from gateway.index.feed.listener import FeedEnd
from gateway.index.feed.live_feed import Subscription
from gateway.runtime.metering import on_account
from policies.errors import LedgerUnavailable
from policies.loader import Board

HEARTBEAT_S: Final = 15.0
"""Time without an event until a heartbeat, which keeps proxies from closing and shows dead clients."""

LOOK_S: Final = 2.0
"""Time after which events wait for another look at whether their board was deleted."""

STALLED_S: Final = 10.0
"""Time that a listener may leave events unread before its connection is cut."""


async def with_heartbeats(
    edge: Edge,
    board: Board,
    feed: Subscription,
    leaving: asyncio.Future[None] | None = None,
    *,
    listener: str = "",
    bearer: Bearer | None = None,
) -> AsyncGenerator[list[FeedEvent], None]:
    """Yield the events of a board's feed until it ends, and an empty list whenever a heartbeat is due.

    `listener` is the player whose token the listener has, who is not told of a shadow ban.

    The feed of a board that is deleted, or is folded anew under another rule, ends at the next heartbeat.
    Events look for that themselves, because there may be so many that no heartbeat is due. That of the
    friends of a `bearer` ends with the bearer's token, before another event is told.

    Raises ConnectionResetError once `leaving` is done, which means that the listener has left.
    """
    clock = asyncio.get_running_loop().time
    looked_s = clock()
    leavings: list[asyncio.Future[Any]] = [leaving] if leaving else []
    upcoming = _next_of(feed)
    try:
        while True:
            done, _ = await asyncio.wait(
                [upcoming, *leavings], timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if leaving in done:
                raise ConnectionResetError("the listener has left")
            if bearer is not None and await _is_over(edge, bearer):
                feed.end_as(FeedEnd.UNAUTHORIZED)
                return
            if not done or clock() - looked_s >= LOOK_S:
                if (end := await _end_of(edge, board)) is not None:
                    feed.end_as(end)
                    return
                looked_s = clock()
            if not done:
                yield []
                continue
            events = upcoming.result()
            if events is None:
                return
            if told := await without_own(edge, board, listener, events):
                yield told
            upcoming = _next_of(feed)
    finally:
        upcoming.cancel()
        await asyncio.wait([upcoming])  # a feed may be closed only while nobody reads it


def _next_of(feed: Subscription) -> asyncio.Task[list[FeedEvent] | None]:
    """Return the next events of a feed, which its listener pays for, None once it ends."""
    return asyncio.create_task(on_account(anext(feed.events, None)))


async def _end_of(edge: Edge, board: Board) -> FeedEnd | None:
    """Return why a board's feed ends: it is gone, also if another one has its name, or has another order."""
    try:
        now = await edge.catalogue.board(board.name)
        if now is None or now.opened_seq != board.opened_seq:
            return FeedEnd.DELETED
        return FeedEnd.REBUILDING if await edge.outdated.has(board.name) else None
    except LedgerUnavailable:
        return None


async def _is_over(edge: Edge, bearer: Bearer) -> bool:
    """Return whether a token has expired or was ended. While the ledger is away, what was known holds."""
    if bearer.expires_at_s <= (edge.clock() - edge.clock_error_ms) / 1000:
        return True
    try:
        return await edge.ended_tokens.has_ended(bearer)
    except LedgerUnavailable:
        return False


async def send_in_time(request: web.Request, sending: Awaitable[None]) -> None:
    """Wait until a listener has taken what is being sent.

    Raises ConnectionResetError if it has left, or reads nothing for STALLED_S.
    """
    try:
        async with asyncio.timeout(STALLED_S):
            await sending
    except TimeoutError:
        if request.transport:
            request.transport.abort()
        raise ConnectionResetError("the listener does not read") from None
