"""Events as they come, with a heartbeat where none does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from gateway.index.feed.events import FeedEvent
from gateway.index.feed.live_feed import Subscription

HEARTBEAT_S: Final = 15.0
"""Something is sent when nothing else was, so that proxies keep the connection and dead clients are noticed."""

STALLED_S: Final = 10.0
"""How long a listener may take nothing of what is sent before its connection is cut."""


async def with_heartbeats(
    feed: Subscription, leaving: asyncio.Future[None] | None = None
) -> AsyncGenerator[list[FeedEvent], None]:
    """The events of a feed until it ends, and an empty list whenever a heartbeat is due.

    Raises ConnectionResetError once `leaving` is done: the listener is gone, though nothing was sent that would tell.
    """
    awaited: list[asyncio.Future[Any]] = [leaving] if leaving else []
    upcoming = asyncio.ensure_future(anext(feed.events, None))
    try:
        while True:
            done, _ = await asyncio.wait(
                [upcoming, *awaited], timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if leaving in done:
                raise ConnectionResetError("the listener has left")
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
        await asyncio.wait([upcoming])  # a feed is closed by the one who reads it, once nobody does
