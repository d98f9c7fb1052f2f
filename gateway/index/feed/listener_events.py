"""The events of one listener: first what it missed, then what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

from gateway.index.changes import ChangeStream, StandingChange
from gateway.index.feed.catch_up_budget import CatchUpBudget
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.feed.listener import FeedEnd, Gap, Listener
from gateway.index.feed.place_watch import PlaceWatch
from gateway.index.lane_stream import StreamTrimmed, position_of
from gateway.runtime.telemetry import LIVE_RESETS
from policies.errors import IndexUnavailable

RESUME_PAGE: Final = 100
"""Changes read at once for a returning listener."""

SENT_TOGETHER: Final = 200
"""Missed events sent together, plus those of one change; other tasks get their turn in between."""


class ListenerEvents:
    """The events that one listener gets for the changes of a board."""

    def __init__(self, stream: ChangeStream, listener: Listener) -> None:
        self._stream = stream
        self._listener = listener
        self._interest = interest = listener.interest
        self._watch = PlaceWatch(stream, sorted(interest.watched)) if interest.watches_ranks else None
        self._last_id = listener.position or ""

    async def events(self, after: str | None) -> AsyncGenerator[list[FeedEvent], None]:
        """Yield groups of events until the listener ends, as it does if its past is unreadable."""
        try:
            if after is None:
                yield [FeedEvent(EventKind.BEGIN, self._listener.position)]
            else:
                async for missed in self._missed(after):
                    yield missed
            while changes := await self._listener.take():
                if upcoming := [event for change in changes for event in await self._events_given(change)]:
                    yield upcoming
                self._listener.position = self._last_id or None
        except IndexUnavailable:
            self._listener.let_go(FeedEnd.UNKNOWN_PAST)

    async def _missed(self, after: str) -> AsyncGenerator[list[FeedEvent], None]:
        """Yield what came after `after`, or a reset if that is too much; changes that come meanwhile wait."""
        self._last_id = after
        bounds = CatchUpBudget()
        try:
            async for page in self._stream.pages_after(after, RESUME_PAGE):
                missed: list[FeedEvent] = []
                for change in page.changes:
                    with bounds.working():
                        missed += await self._events_of(change)
                    if len(missed) >= SENT_TOGETHER:
                        bounds.count(changes=0, events=len(missed))
                        yield missed
                        missed = []
                        await asyncio.sleep(0)
                bounds.count(changes=page.read, events=len(missed))
                if missed:
                    yield missed
                self._last_id = page.last_id
                await asyncio.sleep(0)
        except StreamTrimmed:
            yield [self._reset(self._listener.position)]
        self._listener.position = self._last_id or None

    async def _events_given(self, given: StandingChange | Gap) -> list[FeedEvent]:
        if isinstance(given, Gap):
            return [self._reset(given.stream_id)]
        if given.position <= position_of(self._last_id):
            return []
        try:
            events = await self._events_of(given)
        except StreamTrimmed:
            events = [self._reset(given.stream_id)]
        self._last_id = given.stream_id
        return events

    async def _events_of(self, change: StandingChange) -> list[FeedEvent]:
        """Return the events of a change. Only the last has the id, so a partial group is sent again."""
        interest = self._interest
        if not interest.concerns(change):
            return []
        events = []
        if interest.tells_of(change.player):
            events.append(FeedEvent(EventKind.STANDING, None, change))
        if self._watch is not None:
            events += [event for event in await self._watch.follow(change) if event.kind in interest.kinds]
        return [*events[:-1], *(replace(event, stream_id=change.stream_id) for event in events[-1:])]

    def _reset(self, stream_id: str | None) -> FeedEvent:
        LIVE_RESETS.inc()
        self._last_id = stream_id or ""
        if self._watch is not None:
            self._watch.forget()
        return FeedEvent(EventKind.RESET, stream_id)
