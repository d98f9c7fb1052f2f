"""The reader of lanes, once per process: it keeps its position in each stream, and notices gaps.

On a single server one blocking call waits for the changes of all lanes that are followed. A cluster would
need a blocked connection for each slot. There each node is asked at intervals, with one call for its lanes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis, RedisCluster

from gateway.index import keys
from gateway.index.cluster import keys_by_server
from gateway.index.connection import BLOCK_MS
from gateway.index.lane_stream import (
    LanePage,
    LaneStream,
    StreamTrimmed,
    grown_after,
    newest_ids,
    position_of,
)
from gateway.index.scripts import index_boundary
from gateway.runtime.background import cancel_and_wait, rest
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable

POLL_S: Final = 0.1
"""Time between two looks at the lanes of a node of a cluster: how late a change may be told."""

RETRY_S: Final = 1.0

UNEXPECTED_S: Final = 5.0
"""Pause after an unexpected failure."""

POSITION_S: Final = 2.0
"""Longest wait of a listener for the reader to know the end of its stream: what came before is sent to
nobody. Without Redis the wait would be in vain."""

LOOK_S: Final = 5.0
"""Time between checks that the streams still reach its positions. After Redis was emptied, with a clock that
is behind, a new stream would stay below the position and never wake the reader."""


@dataclass(eq=False, slots=True)
class LaneCursor:
    """The position in the stream of one lane; `is_lost` if it is not known how to continue from it."""

    lane: int
    stream: LaneStream
    last_id: str | None = None
    is_known: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False
    is_being_read: bool = False
    look_at_s: float = 0.0

    @property
    def position(self) -> str | None:
        """The id of the last entry read, None if there was none."""
        return None if self.is_lost else self.last_id


class LaneReader:
    """A reader of lanes from their ends. Fails open: without Redis it waits, then continues where it was.

    It reads the lanes that are followed. While there are none it makes no call and keeps no connection. It
    calls `hear` with the entries of a lane in order, and `grown` with a lane whose stream has grown. After a
    gap it calls `begin_again` with the id after which the next entries come.
    """

    def __init__(
        self,
        client: Redis,
        *,
        hear: Callable[[int, LanePage], None],
        begin_again: Callable[[int, str | None], None],
        grown: Callable[[int], Awaitable[None]],
    ) -> None:
        self._client = client
        self._hear = hear
        self._begin_again = begin_again
        self._grown = grown
        self._cursors: dict[int, LaneCursor] = {}
        self._has_new_lanes = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._rounds: set[asyncio.Task[None]] = set()

    @property
    def lanes(self) -> Sequence[int]:
        """The lanes that are followed."""
        return tuple(self._cursors)

    def follow(self, lane: int) -> None:
        """Read a lane from now on."""
        self._cursors[lane] = LaneCursor(lane, LaneStream(self._client, keys.lane_changes(lane)))
        self._has_new_lanes.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_for_ever(), name="live-feed")

    def leave(self, lane: int) -> None:
        """Read a lane no more, and forget its position."""
        del self._cursors[lane]
        if not self._cursors:
            self._has_new_lanes.set()  # nothing is left to wait for

    async def stop(self) -> None:
        """Stop reading."""
        for task in (self._task, *self._rounds):
            if task:
                await cancel_and_wait(task)

    async def ready(self, lane: int) -> None:
        """Wait until the end of a lane that is followed is known, or for POSITION_S without Redis."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITION_S):
                await self._cursors[lane].is_known.wait()

    def position(self, lane: int) -> str | None:
        """Return the id of the last entry read of a lane, None if there was none."""
        return self._cursors[lane].position

    async def _read_for_ever(self) -> None:
        while self._cursors:
            self._has_new_lanes.clear()
            if isinstance(self._client, RedisCluster):
                await self._poll()
            else:
                await self._attempt(list(self._cursors.values()))
                if not self._cursors:  # the lanes may come back while the connections are closed
                    await self._client.connection_pool.disconnect(inuse_connections=False)

    async def _poll(self) -> None:
        """Begin a round on each node, unless the last one there is still under way."""
        free = {cursor.stream.key: cursor for cursor in self._cursors.values() if not cursor.is_being_read}
        for group in await self._by_server(list(free)):
            cursors = [free[key] for key in group]
            for cursor in cursors:
                cursor.is_being_read = True
            task = asyncio.create_task(self._attempt(cursors), name="live-feed-node")
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._has_new_lanes.wait()

    async def _by_server(self, streams: Sequence[str]) -> list[list[str]]:
        try:
            with index_boundary():
                return await keys_by_server(self._client, streams)
        except IndexUnavailable:  # the round fails too, and waits
            return [list(streams)]

    async def _attempt(self, cursors: Sequence[LaneCursor]) -> None:
        """Read on, or wait after a failure."""
        try:
            await self._read_once(cursors)
        except IndexUnavailable:
            for cursor in cursors:
                cursor.look_at_s = 0.0
                # Nothing identifies a stream that had no entry: it may be another one after the failure.
                cursor.is_lost |= cursor.is_known.is_set() and cursor.last_id is None
            await rest(RETRY_S)
        except Exception as error:  # noqa: BLE001 - every live feed depends on this loop
            report(FaultPlace.FEED, error)
            await rest(UNEXPECTED_S)
        finally:
            for cursor in cursors:
                cursor.is_being_read = False

    async def _read_once(self, cursors: Sequence[LaneCursor]) -> None:
        await self._look(cursors)
        ends = {cursor.stream.key: cursor.position or "0-0" for cursor in cursors}
        grown = await self._grown_after(ends)
        for cursor in cursors:
            if cursor.stream.key in grown and self._is_followed(cursor):
                await self._read(cursor)
                await self._grown(cursor.lane)

    async def _grown_after(self, ends: dict[str, str]) -> set[str]:
        """Return what `grown_after` does; nothing once more lanes are followed than those it waits for."""
        if isinstance(self._client, RedisCluster):
            return await grown_after(self._client, ends)
        reading = asyncio.create_task(grown_after(self._client, ends, block_ms=BLOCK_MS))
        # Otherwise asyncio would log an error that came together with the end of the feed.
        reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        changing = asyncio.create_task(self._has_new_lanes.wait())
        try:
            await asyncio.wait({reading, changing}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else set()
        finally:
            await cancel_and_wait(changing)
            await cancel_and_wait(reading)

    async def _read(self, cursor: LaneCursor) -> None:
        """Read on in a stream that has grown."""
        if cursor.is_lost:
            await self._skip(cursor)
            return
        try:
            page = await (cursor.stream.after(cursor.last_id) if cursor.last_id else cursor.stream.first())
        except StreamTrimmed:
            await self._skip(cursor)
        else:
            cursor.last_id = page.last_id
            if self._is_followed(cursor):
                self._hear(cursor.lane, page)

    async def _skip(self, cursor: LaneCursor) -> None:
        """Continue from the newest entry, and tell the listeners of the gap before it."""
        newest = await cursor.stream.newest_id()
        cursor.last_id, cursor.is_lost = newest, False
        if self._is_followed(cursor):
            self._begin_again(cursor.lane, newest)

    async def _look(self, cursors: Iterable[LaneCursor]) -> None:
        """Learn where new streams end, and find those that began again: gone, or behind our position."""
        now_s = asyncio.get_running_loop().time()
        due = [cursor for cursor in cursors if now_s >= cursor.look_at_s]
        if not due:
            return
        newest = await newest_ids(self._client, [cursor.stream.key for cursor in due])
        for cursor in due:
            await self._compare(cursor, newest[cursor.stream.key])
            cursor.look_at_s = now_s + LOOK_S

    async def _compare(self, cursor: LaneCursor, newest: str | None) -> None:
        if not cursor.is_known.is_set():
            cursor.last_id = newest
            cursor.is_known.set()
        elif cursor.last_id is None or cursor.is_lost:
            return
        elif newest is None:
            cursor.is_lost = True
        elif position_of(newest) < position_of(cursor.last_id):
            await self._skip(cursor)

    def _is_followed(self, cursor: LaneCursor) -> bool:
        """Return whether the cursor is in use, and neither left nor followed anew."""
        return self._cursors.get(cursor.lane) is cursor
