"""The live feed: the change streams are read once a process, for many listeners, each able to resume where it left."""

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
"""Listeners of one process, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One listener's feed: its events, as many as there are at a time, and once they have ended, why."""

    events: AsyncIterator[list[FeedEvent]]
    _listener: Listener
    _newest: NewestEvents

    @property
    def end(self) -> FeedEnd | None:
        """Why the events ended."""
        return self._listener.end

    @property
    def position(self) -> str | None:
        """The id up to which everything was told; None while something is on its way."""
        return self._listener.position if self._listener.is_idle and not len(self._newest) else None


class LiveFeed:
    """The changes of all boards as they happen. Fails open: without Redis listeners wait, and resume after.

    With `announce_as` the newest changes go out on a Pub/Sub channel of Redis too, as what it makes of them.
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
        """Follows the boards that it does not know yet: with a reader that can, or a new one."""
        for board, ranking in rankings.items():
            if board in self._streams:
                continue
            stream = self._streams[board] = change_stream(self._blocking, ranking)
            self._listeners[board] = set()
            reader = next((each for each in self._readers if self._can_read(each, stream.key)), None)
            if reader is None:
                reader = self._reader(self._blocking, [board])
                self._readers.append(reader)
                reader.start()
            else:
                reader.read_too(board, stream)
            self._reader_of[board] = reader

    def _can_read(self, reader: ChangeReader, key: str) -> bool:
        """Whether one command can read a stream together with those of a reader."""
        first = self._streams[next(iter(reader.boards))].key
        return len(streams_by_slot(self._blocking, [first, key])) == 1

    def start(self) -> None:
        """Begins to read."""
        for reader in self._readers:
            reader.start()

    async def stop(self) -> None:
        """Ends reading and lets every listener go."""
        await asyncio.gather(*(reader.stop() for reader in self._readers))
        self.release()

    def listeners(self, board: str) -> int:
        """How many follow a board now."""
        return len(self._listeners[board])

    def release(self) -> None:
        """Lets every listener go, and those that come later too; each can resume at another process."""
        self._is_released = True
        for group in self._listeners.values():
            for listener in group:
                listener.let_go(FeedEnd.RELEASED)

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """Keeps a seat for one listener; False if all are taken."""
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
        """What concerns a listener of a board from now on, preceded by what came after stream id `after`.

        The events end, without an error, for a listener that fell too far behind or could not be told what it missed:
        it comes back with the id of the last one it had.
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
        """Boards whose streams one command can read: all of them, and on a cluster those of one slot."""
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
        """Fails open: what cannot be announced is not, and those who listen here are told all the same."""
        if self._announcer is not None:
            with suppress(IndexUnavailable):
                await self._announcer.announce(self._streams[board])

    def _tell_of_gap(self, board: str, stream_id: str | None) -> None:
        for listener in self._listeners[board]:
            listener.tell_of_gap(stream_id)
