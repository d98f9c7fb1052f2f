"""What one listener is told: first what it missed, then what comes, as the events that it asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Final

from gateway.index.changes import ChangeStream, StandingChange, StreamTrimmed, position_of
from gateway.index.feed.catch_up_budget import CatchUpBudget
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.feed.listener import FeedEnd, Gap, Listener
from gateway.index.feed.place_watch import PlaceWatch
from gateway.runtime.telemetry import LIVE_RESETS
from policies.errors import IndexUnavailable

RESUME_PAGE: Final = 100
"""Changes read at once for a listener that comes back."""

TOLD_TOGETHER: Final = 200
"""Events of the past that are sent together, but for those of one change; others have their turn between."""


class ListenerEvents:
    """Turns the changes of a board into one listener's events."""

    def __init__(self, stream: ChangeStream, listener: Listener) -> None:
        self._stream = stream
        self._listener = listener
        self._interest = interest = listener.interest
        self._watch = PlaceWatch(stream, sorted(interest.watched)) if interest.watches_ranks else None
        self._last_id = listener.position or ""

    async def events(self, after: str | None) -> AsyncGenerator[list[FeedEvent], None]:
        """Events, as many as there are at a time, until the listener is let go: so it is if Redis cannot tell the past."""
        try:
            if after is None:
                yield [FeedEvent(EventKind.BEGIN, self._listener.position)]
            else:
                async for missed in self._missed(after):
                    yield missed
            while given := await self._listener.take():
                if upcoming := [event for each in given for event in await self._events_given(each)]:
                    yield upcoming
                self._listener.position = self._last_id or None
        except IndexUnavailable:
            self._listener.let_go(FeedEnd.UNKNOWN_PAST)

    async def _missed(self, after: str) -> AsyncGenerator[list[FeedEvent], None]:
        """What came after `after`, or a reset if that is too much; what comes meanwhile waits, and is told once."""
        self._last_id = after
        bounds = CatchUpBudget()
        try:
            async for page in self._stream.pages_after(after, RESUME_PAGE):
                missed: list[FeedEvent] = []
                for change in page.changes:
                    with bounds.working():
                        missed += await self._events_of(change)
                    if len(missed) >= TOLD_TOGETHER:
                        bounds.count(changes=0, events=len(missed))
                        yield missed
                        missed = []
                        await asyncio.sleep(0)
                bounds.count(changes=len(page.changes), events=len(missed))
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
        """The events of a change. The last one alone bears its id: who had only some of them gets all again."""
        interest = self._interest
        if not interest.concerns(change):
            return []
        events = []
        if interest.tells_of(change.player):
            events.append(FeedEvent(EventKind.STANDING, None, change))
        if self._watch is not None:
            events += [each for each in await self._watch.follow(change) if each.kind in interest.kinds]
        return [*events[:-1], *(replace(each, stream_id=change.stream_id) for each in events[-1:])]

    def _reset(self, stream_id: str | None) -> FeedEvent:
        LIVE_RESETS.inc()
        self._last_id = stream_id or ""
        if self._watch is not None:
            self._watch.forget()
        return FeedEvent(EventKind.RESET, stream_id)
