"""One listener's place in the feed: what was read for it and not yet told, within a bound."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final, NamedTuple

from gateway.index.changes import StandingChange
from gateway.index.feed.events import Interest
from gateway.runtime.telemetry import LIVE_CHANGES

LISTENER_LIMIT: Final = 1024
"""Changes a slow listener may fall behind before it is let go; it resumes by the id of the last one it had. Listeners
share the changes, so that each costs a listener a reference; several pages of the reader fit."""

_dropped = LIVE_CHANGES.labels("dropped")


class FeedEnd(Enum):
    """Why a feed ended."""

    BEHIND = "the listener fell too far behind"
    RELEASED = "this process is shutting down"
    UNKNOWN_PAST = "what was missed cannot be told now"


class Gap(NamedTuple):
    """Changes up to this id, None for no id, were not read."""

    stream_id: str | None


class Listener:
    """Changes on their way to one listener. `position` is the id up to which it was told all that concerns it."""

    def __init__(self, interest: Interest, position: str | None) -> None:
        self.interest = interest
        self.position = position
        self.end: FeedEnd | None = None
        self._queue: asyncio.Queue[StandingChange | Gap | None] = asyncio.Queue(LISTENER_LIMIT)
        self._is_waiting = False

    @property
    def is_idle(self) -> bool:
        """True while everything it was given is dealt with."""
        return self._is_waiting and self._queue.empty()

    @property
    def behind(self) -> int:
        """How many changes wait for it."""
        return self._queue.qsize()

    def offer(self, change: StandingChange) -> None:
        """Gives it a change, if that concerns it; lets it go if it has too many."""
        if self.end is not None:
            return
        if self.interest.concerns(change):
            if self._queue.full():
                self.let_go(FeedEnd.BEHIND)
            else:
                self._queue.put_nowait(change)
        elif self.is_idle:
            self.position = change.stream_id

    def tell_of_gap(self, stream_id: str | None) -> None:
        """Has it begin again at `stream_id`; what waited for it would be older than the board it then reads."""
        if self.end is None:
            self._empty()
            self._queue.put_nowait(Gap(stream_id))

    def let_go(self, end: FeedEnd) -> None:
        """Ends its feed."""
        if self.end is None:
            self.end = end
            # All that it has not seen goes, not the oldest alone: it resumes from the last one it saw, so a hole would stay.
            _dropped.inc(self._empty())
            self._queue.put_nowait(None)

    async def take(self) -> list[StandingChange | Gap]:
        """All that waits for it, at least one; nothing once it was let go."""
        self._is_waiting = True
        try:
            taken = [await self._queue.get()]
        finally:
            self._is_waiting = False
        while not self._queue.empty():
            taken.append(self._queue.get_nowait())
        return [each for each in taken if each is not None]

    def _empty(self) -> int:
        count = self._queue.qsize()
        for _ in range(count):
            self._queue.get_nowait()
        return count
