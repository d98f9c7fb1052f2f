"""The live feed: change streams, read once per process for many listeners, each of which can resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from gateway.index.changes import StandingChange
from gateway.index.cluster import streams_by_slot
from gateway.index.feed.announcer import Announcer
from gateway.index.feed.events import FeedEvent, FeedMode, Interest
from gateway.index.feed.listener import FeedEnd, Listener
from gateway.index.feed.listener_events import ListenerEvents
from gateway.index.feed.newest_events import NewestEvents, coalesced
from gateway.index.feed.reader import ChangeReader
from gateway.index.feed.sharded_stream import change_stream
from policies.errors import IndexUnavailable
from policies.ranking import Ranking

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

    @property
    def position(self) -> str | None:
        """The id up to which everything was sent; None while events are on their way."""
        return self._listener.position if self._listener.is_idle and not len(self._newest) else None


class LiveFeed:
    """The changes of all boards as they happen. Fails open: without Redis, listeners wait and resume later.

    With `announce_as`, which makes their text, the newest changes also go out on a Pub/Sub channel of Redis.
    """

    def __init__(
        self,
        blocking: Redis,
        rankings: Mapping[str, Ranking],
        *,
        seats: int = SEATS,
        announce_as: Callable[[FeedEvent], str] | None = None,
    ) -> None:
        self._blocking = blocking
        self._streams = {board: change_stream(blocking, ranking) for board, ranking in rankings.items()}
        self._listeners: dict[str, set[Listener]] = {board: set() for board in rankings}
        self._announcer = Announcer(blocking, announce_as) if announce_as else None
        self._free = seats
        self._is_released = False
        self._readers = [self._reader(blocking, group) for group in self._groups(blocking)]
        self._reader_of = {board: reader for reader in self._readers for board in reader.boards}

    def follow_new(self, rankings: Mapping[str, Ranking]) -> None:
        """Follow boards that are new, with a reader that can read their streams, or a new one."""
        for board, ranking in rankings.items():
            if board in self._streams:
                continue
            stream = self._streams[board] = change_stream(self._blocking, ranking)
            self._listeners[board] = set()
            reader = next((one for one in self._readers if self._can_read(one, stream.key)), None)
            if reader is None:
                reader = self._reader(self._blocking, [board])
                self._readers.append(reader)
                reader.start()
            else:
                reader.read_too(board, stream)
            self._reader_of[board] = reader

    def _can_read(self, reader: ChangeReader, key: str) -> bool:
        """Return whether one command can read a stream together with those of a reader."""
        first = self._streams[next(iter(reader.boards))].key
        return len(streams_by_slot(self._blocking, [first, key])) == 1

    def start(self) -> None:
        """Start reading."""
        for reader in self._readers:
            reader.start()

    async def stop(self) -> None:
        """Stop reading, and disconnect every listener."""
        await asyncio.gather(*(reader.stop() for reader in self._readers))
        self.release()

    def listeners(self, board: str) -> int:
        """Return how many listeners a board has now."""
        return len(self._listeners[board])

    def release(self) -> None:
        """Disconnect every listener, also those that come later; each can resume at another process."""
        self._is_released = True
        for group in self._listeners.values():
            for listener in group:
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
        resumes with the id of the last event that it got.
        """
        reader = self._reader_of[board]
        await reader.ready(board)
        listener = Listener(interest or Interest(), reader.position(board))
        newest = NewestEvents()
        self._listeners[board].add(listener)
        if self._is_released:
            listener.let_go(FeedEnd.RELEASED)
        all_events = ListenerEvents(self._streams[board], listener).events(after)
        events = coalesced(all_events, newest) if listener.interest.mode is FeedMode.NEWEST else all_events
        try:
            async with aclosing(all_events), aclosing(events):
                yield Subscription(events, listener, newest)
        finally:
            self._listeners[board].discard(listener)

    def _groups(self, client: Redis) -> list[list[str]]:
        """Group boards whose streams one command can read: all, or those of one slot on a cluster."""
        boards = {stream.key: board for board, stream in self._streams.items()}
        return [[boards[key] for key in group] for group in streams_by_slot(client, boards)]

    def _reader(self, client: Redis, boards: Iterable[str]) -> ChangeReader:
        streams = {board: self._streams[board] for board in boards}
        return ChangeReader(
            client, streams, hear=self._hear, begin_again=self._tell_of_gap, grown=self._announce
        )

    def _hear(self, board: str, changes: Sequence[StandingChange]) -> None:
        for change in changes:
            for listener in self._listeners[board]:
                listener.offer(change)

    async def _announce(self, board: str) -> None:
        """Announce new changes. Fails open: listeners of this process get them in any case."""
        if self._announcer is not None:
            with suppress(IndexUnavailable):
                await self._announcer.announce(self._streams[board])

    def _tell_of_gap(self, board: str, stream_id: str | None) -> None:
        for listener in self._listeners[board]:
            listener.tell_of_gap(stream_id)
