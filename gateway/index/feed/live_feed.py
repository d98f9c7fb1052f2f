"""The live feed: the changes of lanes, read once per process for many listeners, each of which can resume."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from gateway.index.changes import ChangeStream
from gateway.index.feed.announcer import Announcer
from gateway.index.feed.events import FeedEvent, FeedMode, Interest
from gateway.index.feed.listener import FeedEnd, Listener
from gateway.index.feed.listener_events import ListenerEvents
from gateway.index.feed.newest_events import NewestEvents, coalesced
from gateway.index.feed.reader import LaneReader
from gateway.index.feed.sharded_stream import change_stream
from gateway.index.lane_stream import Entry, LanePage
from gateway.runtime.lanes import LANES, lane_of
from policies.errors import IndexUnavailable, LedgerUnavailable
from policies.ranking import Ranking

RankingOf = Callable[[str], Awaitable[Ranking | None]]
"""Return the ranking of a board, None for a board that does not exist. Raises LedgerUnavailable."""

SEATS: Final = 4096
"""Most listeners of one process by default."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One listener's feed: its events in groups and, after the last, the reason for its end."""

    events: AsyncIterator[list[FeedEvent]]
    _listener: Listener
    _newest: NewestEvents

    @property
    def end(self) -> FeedEnd | None:
        """The reason for the end of the events."""
        return self._listener.end

    def end_as(self, end: FeedEnd) -> None:
        """End the events after those that are queued, for this reason."""
        self._listener.let_go(end)

    @property
    def position(self) -> str | None:
        """The id up to which everything was sent; None while events are on their way."""
        return self._listener.position if self._listener.is_idle and not len(self._newest) else None


@dataclass(slots=True)
class _FollowedBoard:
    """A board that is listened to, from its first listener to the last; `count` includes who is about to."""

    stream: ChangeStream
    listeners: set[Listener] = field(default_factory=set)
    count: int = 0


class LiveFeed:
    """The changes of boards as they happen. Fails open: without Redis, listeners wait and resume later.

    Only the lanes of boards with listeners are read. With `announce_as`, which makes their text, the newest
    changes of all boards also go out on Pub/Sub channels of Redis, for which all lanes are read.
    """

    def __init__(
        self,
        client: Redis,
        ranking_of: RankingOf,
        *,
        seats: int = SEATS,
        announce_as: Callable[[FeedEvent], str] | None = None,
    ) -> None:
        self._client = client
        self._ranking_of = ranking_of
        self._boards: dict[int, dict[str, _FollowedBoard]] = defaultdict(dict)
        self._announcer = Announcer(client, self._stream_of, announce_as) if announce_as else None
        self._free = seats
        self._is_released = False
        self._reader = LaneReader(
            client, hear=self._hear, begin_again=self._tell_of_gap, grown=self._announce
        )

    def start(self) -> None:
        """Start announcing, if that is asked for. Lanes of listeners are read from the first of them on."""
        if self._announcer:
            for lane in range(LANES):
                self._reader.follow(lane)

    async def stop(self) -> None:
        """Stop reading, and disconnect every listener."""
        await self._reader.stop()
        self.release()

    @property
    def lanes(self) -> Sequence[int]:
        """The lanes that are read now."""
        return self._reader.lanes

    def listeners(self, board: str) -> int:
        """Return how many listeners a board has now."""
        followed = self._boards.get(lane_of(board), {}).get(board)
        return len(followed.listeners) if followed else 0

    def release(self) -> None:
        """Disconnect every listener, also those that come later; each can resume at another process."""
        self._is_released = True
        for boards in self._boards.values():
            for followed in boards.values():
                for listener in followed.listeners:
                    listener.let_go(FeedEnd.RELEASED)

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """Reserve a seat for one listener. Yield False if all are taken."""
        has_seat = self._free > 0
        self._free -= has_seat
        try:
            yield has_seat
        finally:
            self._free += has_seat

    @asynccontextmanager
    async def listen(
        self, board: str, interest: Interest | None = None, after: str | None = None
    ) -> AsyncIterator[Subscription]:
        """Subscribe to a board: first to what came after stream id `after`, then to what comes.

        The events end without an error if the listener falls too far behind, or if its past is unreadable. It
        resumes with the id of the last event that it got. Raises KeyError for a board that does not exist,
        and LedgerUnavailable.
        """
        async with self._following(board) as followed:
            await self._reader.ready(lane_of(board))
            listener = Listener(interest or Interest(), self._reader.position(lane_of(board)))
            newest = NewestEvents()
            followed.listeners.add(listener)
            if self._is_released:
                listener.let_go(FeedEnd.RELEASED)
            all_events = ListenerEvents(followed.stream, listener).events(after)
            is_coalesced = listener.interest.mode is FeedMode.NEWEST
            events = coalesced(all_events, newest) if is_coalesced else all_events
            try:
                async with aclosing(all_events), aclosing(events):
                    yield Subscription(events, listener, newest)
            finally:
                followed.listeners.discard(listener)

    @asynccontextmanager
    async def _following(self, board: str) -> AsyncIterator[_FollowedBoard]:
        """Follow a board during the block, and its lane while any of its boards is followed."""
        stream = await self._stream_of(board)
        if stream is None:
            raise KeyError(board)
        lane = lane_of(board)
        boards = self._boards[lane]
        if not boards and not self._announcer:
            self._reader.follow(lane)
        followed = boards.setdefault(board, _FollowedBoard(stream))
        followed.count += 1
        try:
            yield followed
        finally:
            followed.count -= 1
            if not followed.count:
                del boards[board]
            if not boards:
                del self._boards[lane]
                if not self._announcer:
                    self._reader.leave(lane)

    async def _stream_of(self, board: str) -> ChangeStream | None:
        ranking = await self._ranking_of(board)
        return change_stream(self._client, ranking) if ranking else None

    def _hear(self, lane: int, page: LanePage) -> None:
        boards = self._boards.get(lane, {})
        entries: dict[str, list[Entry]] = defaultdict(list)
        for entry in page.entries:
            if (board := entry[1].get("board", "")) in boards:
                entries[board].append(entry)
        for board, own in entries.items():
            for change in boards[board].stream.changes_in(own):
                for listener in boards[board].listeners:
                    listener.offer(change)
        for followed in boards.values():
            for listener in followed.listeners:
                listener.pass_over(page.last_id)

    async def _announce(self, lane: int) -> None:
        """Announce new changes. Fails open: listeners of this process get them in any case."""
        if self._announcer is not None:
            with suppress(IndexUnavailable, LedgerUnavailable):
                await self._announcer.announce(lane)

    def _tell_of_gap(self, lane: int, stream_id: str | None) -> None:
        for followed in self._boards.get(lane, {}).values():
            for listener in followed.listeners:
                listener.tell_of_gap(stream_id)
