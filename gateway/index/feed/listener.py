"""Listeners of the feed, each with a bounded queue of changes."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final, NamedTuple

from gateway.index.changes import StandingChange
from gateway.index.feed.events import Interest
from gateway.index.lane_stream import position_of
from gateway.runtime.telemetry import LIVE_CHANGES

LISTENER_LIMIT: Final = 1024
"""Changes that a slow listener may fall behind before it is disconnected; it resumes from its last id.
Listeners share the changes, so each costs a reference; several pages of the reader fit."""

_dropped = LIVE_CHANGES.labels("dropped")


class FeedEnd(Enum):
    """The reason for the end of a feed."""

    BEHIND = "the listener fell too far behind"
    RELEASED = "this process is shutting down"
    UNKNOWN_PAST = "missed changes cannot be read"
    DELETED = "the board was deleted"
    REBUILDING = "the board is being brought to another order"
    UNAUTHORIZED = "the token is over"


class Gap(NamedTuple):
    """A gap: changes up to this id, or of an unknown number for None, were not read."""

    stream_id: str | None


class Listener:
    """One listener and its queue. It has got every change that concerns it up to the id `position`."""

    def __init__(self, interest: Interest, position: str | None) -> None:
        self.interest = interest
        self.position = position
        self.end: FeedEnd | None = None
        self._queue: asyncio.Queue[StandingChange | Gap | None] = asyncio.Queue(LISTENER_LIMIT)
        self._is_waiting = False

    @property
    def is_idle(self) -> bool:
        """Whether it has handled every change."""
        return self._is_waiting and self._queue.empty()

    @property
    def behind(self) -> int:
        """The number of changes in its queue."""
        return self._queue.qsize()

    def offer(self, change: StandingChange) -> None:
        """Queue a change that concerns it; disconnect it if its queue is full."""
        if self.end is not None:
            return
        if self.interest.concerns(change):
            if self._queue.full():
                self.let_go(FeedEnd.BEHIND)
            else:
                self._queue.put_nowait(change)

    def pass_over(self, stream_id: str) -> None:
        """Move on to `stream_id`, up to which nothing else concerns it, so that it can always resume.

        Its board may be quiet while others in the lane are not, and their changes trim the stream.
        """
        if self.end is not None or not self.is_idle:
            return
        if position_of(self.position or "") < position_of(stream_id):  # it may have caught up with later ones
            self.position = stream_id

    def tell_of_gap(self, stream_id: str | None) -> None:
        """Restart it at `stream_id`, and drop its queue, which is older than the board that it then reads."""
        if self.end is None:
            self._empty()
            self._queue.put_nowait(Gap(stream_id))

    def let_go(self, end: FeedEnd) -> None:
        """End its feed."""
        if self.end is None:
            self.end = end
            # Drop the whole queue, not only the oldest: the listener resumes from the last change it got, so
            # a gap after that one would stay.
            _dropped.inc(self._empty())
            self._queue.put_nowait(None)

    async def take(self) -> list[StandingChange | Gap]:
        """Wait for changes, and return all of them; an empty list ends the feed."""
        self._is_waiting = True
        try:
            taken = [await self._queue.get()]
        finally:
            self._is_waiting = False
        while not self._queue.empty():
            taken.append(self._queue.get_nowait())
        return [change for change in taken if change is not None]

    def _empty(self) -> int:
        count = self._queue.qsize()
        for _ in range(count):
            self._queue.get_nowait()
        return count
