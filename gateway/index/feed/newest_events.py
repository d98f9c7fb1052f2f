"""Coalesced events: of those a listener has not taken yet, the newest of each kind, window and player."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from itertools import islice
from typing import Final

from gateway.index.feed.events import EventKind, FeedEvent
from gateway.runtime.metering import on_account
from gateway.runtime.telemetry import LIVE_CHANGES

NEWEST_LIMIT: Final = 1024
"""Most events (0.5 kB each) that wait for a slow listener; beyond that it must read the board."""

TAKEN_AT_ONCE: Final = 64
"""Events given to a listener together; after that they can no longer be coalesced."""

_coalesced = LIVE_CHANGES.labels("coalesced")
_dropped = LIVE_CHANGES.labels("dropped")


class NewestEvents:
    """The events that wait for a listener, ordered by id: each id covers all events before it."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[EventKind, str, str], FeedEvent] = {}
        self._last_id: str | None = None
        self._is_closed = False
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: FeedEvent) -> None:
        """Add an event, which replaces the one of the same kind, window and player."""
        self._last_id = event.stream_id or self._last_id
        key = _key(event)
        if event.kind is EventKind.RESET:
            self._drop_all()
        elif self._waiting.pop(key, None) is not None:
            _coalesced.inc()
        elif len(self._waiting) >= NEWEST_LIMIT:
            self._drop_all()
            _dropped.inc()
            event = FeedEvent(EventKind.RESET, self._last_id)
            key = _key(event)
        self._waiting[key] = event
        self._news.set()

    def close(self) -> None:
        """Announce that no more events come."""
        self._is_closed = True
        self._news.set()

    async def take(self) -> list[FeedEvent]:
        """Wait for events, and return the oldest; an empty list if none wait and no more come."""
        while not self._waiting and not self._is_closed:
            self._news.clear()
            await self._news.wait()
        taken = list(islice(self._waiting, TAKEN_AT_ONCE))
        return [self._waiting.pop(key) for key in taken]

    def _drop_all(self) -> None:
        _dropped.inc(len(self._waiting))
        self._waiting.clear()


async def coalesced(
    events: AsyncIterator[list[FeedEvent]], newest: NewestEvents
) -> AsyncGenerator[list[FeedEvent], None]:
    """Yield events as fast as they are taken, coalesced in `newest`."""
    filling = asyncio.create_task(on_account(_fill(events, newest)))
    try:
        while taken := await newest.take():
            yield taken
        await filling
    finally:
        filling.cancel()
        await asyncio.wait([filling])


async def _fill(events: AsyncIterator[list[FeedEvent]], newest: NewestEvents) -> None:
    try:
        async for group in events:
            for event in group:
                newest.put(event)
    finally:
        newest.close()


def _key(event: FeedEvent) -> tuple[EventKind, str, str]:
    change = event.change
    return event.kind, change.window if change else "", event.player or (change.player if change else "")
