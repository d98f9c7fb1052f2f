"""The pace of a feed: heartbeats while no events come, and an end to listeners that read nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, Final

from aiohttp import web

from gateway.edge.context import Edge
from gateway.index.feed.events import FeedEvent
from gateway.index.feed.listener import FeedEnd
from gateway.index.feed.live_feed import Subscription
from policies.errors import LedgerUnavailable
from policies.loader import Board

HEARTBEAT_S: Final = 15.0
"""Time without an event until a heartbeat, which keeps proxies from closing and shows dead clients."""

LOOK_S: Final = 2.0
"""Time after which events wait for another look at whether their board was deleted."""

STALLED_S: Final = 10.0
"""Time that a listener may leave events unread before its connection is cut."""


async def with_heartbeats(
    edge: Edge, board: Board, feed: Subscription, leaving: asyncio.Future[None] | None = None
) -> AsyncGenerator[list[FeedEvent], None]:
    """Yield the events of a board's feed until it ends, and an empty list whenever a heartbeat is due.

    The feed of a deleted board ends at the next heartbeat. Events look for that themselves, because another
    board of the same name may send so many that no heartbeat is due. Raises ConnectionResetError once
    `leaving` is done, which means that the listener has left.
    """
    clock = asyncio.get_running_loop().time
    looked_s = clock()
    leavings: list[asyncio.Future[Any]] = [leaving] if leaving else []
    upcoming = asyncio.ensure_future(anext(feed.events, None))
    try:
        while True:
            done, _ = await asyncio.wait(
                [upcoming, *leavings], timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if leaving in done:
                raise ConnectionResetError("the listener has left")
            if not done or clock() - looked_s >= LOOK_S:
                if await _is_deleted(edge, board):
                    feed.end_as(FeedEnd.DELETED)
                    return
                looked_s = clock()
            if not done:
                yield []
                continue
            events = upcoming.result()
            if events is None:
                return
            yield events
            upcoming = asyncio.ensure_future(anext(feed.events, None))
    finally:
        upcoming.cancel()
        await asyncio.wait([upcoming])  # a feed may be closed only while nobody reads it


async def _is_deleted(edge: Edge, board: Board) -> bool:
    """Return whether a board is gone, be it that another one has its name now."""
    try:
        now = await edge.catalogue.board(board.name)
    except LedgerUnavailable:
        return False
    return now is None or now.opened_seq != board.opened_seq


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
