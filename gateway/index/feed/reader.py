"""The reader of change streams, once per process: it keeps its position in each, and notices gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis

from gateway.index.changes import ChangeStream, StandingChange, StreamTrimmed, position_of
from gateway.index.connection import BLOCK_MS
from gateway.index.scripts import index_boundary
from gateway.runtime.background import cancel_and_wait
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable

RETRY_S: Final = 1.0

UNEXPECTED_S: Final = 5.0
"""Pause after an unexpected failure."""

POSITION_S: Final = 2.0
"""Longest wait of a listener, just after a start, for the reader to know the ends of the streams: what came
before is sent to nobody. Without Redis the wait would be in vain."""

LOOK_S: Final = 5.0
"""Time between checks that the streams still reach its positions. After Redis was emptied, with a clock that
is behind, a new stream would stay below the position and never wake the reader."""


class ChangeReader:
    """A reader of streams from their ends. Fails open: without Redis it waits, then continues where it was.

    It calls `hear` with the changes of a board in order, and `grown` with a board whose stream has grown.
    After a gap it calls `begin_again` with the id after which the next changes come.
    """

    def __init__(
        self,
        client: Redis,
        streams: Mapping[str, ChangeStream],
        *,
        hear: Callable[[str, Sequence[StandingChange]], None],
        begin_again: Callable[[str, str | None], None],
        grown: Callable[[str], Awaitable[None]],
    ) -> None:
        self._client = client
        self._streams = dict(streams)
        self._boards = {stream.key: board for board, stream in streams.items()}
        self._hear = hear
        self._begin_again = begin_again
        self._grown = grown
        self._positions: dict[str, str | None] = {}
        self._lost: set[str] = set()
        self._look_at_s = 0.0
        self._has_positions = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._turning: asyncio.Task[None] | None = None

    @property
    def boards(self) -> Iterable[str]:
        """The boards of its streams."""
        return self._streams

    def start(self) -> None:
        """Start reading."""
        self._task = asyncio.create_task(self._read_for_ever(), name="live-feed")

    def read_too(self, board: str, stream: ChangeStream) -> None:
        """Read one more stream from now on."""
        self._streams[board] = stream
        self._boards[stream.key] = board
        self._has_positions.clear()
        if self._turning is None or self._turning.done():
            self._turning = asyncio.create_task(self._turn(), name="live-feed-turn")

    async def _turn(self) -> None:
        """Restart the blocking read, which does not name the new stream."""
        await self._end()
        self.start()

    async def stop(self) -> None:
        """Stop reading."""
        if self._turning is not None:
            await self._turning
        await self._end()

    async def _end(self) -> None:
        if self._task:
            await cancel_and_wait(self._task)

    async def ready(self, board: str) -> None:
        """Wait until the end of a board's stream is known, or for POSITION_S without Redis."""
        if board in self._positions:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITION_S):
                await self._has_positions.wait()

    def position(self, board: str) -> str | None:
        """Return the id of the last entry read of a board, None if there was none."""
        return None if board in self._lost else self._positions.get(board)

    async def _read_for_ever(self) -> None:
        while True:
            try:
                await self._read_once()
            except IndexUnavailable:
                self._look_at_s = 0.0
                # Nothing identifies a stream that had no entry: it may be another one after the failure.
                self._lost |= {board for board, last_id in self._positions.items() if last_id is None}
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 - every live feed depends on this loop
                report(FaultPlace.FEED, error)
                await asyncio.sleep(UNEXPECTED_S)

    async def _read_once(self) -> None:
        while unknown := self._streams.keys() - self._positions.keys():
            newest = {board: await self._streams[board].newest_id() for board in unknown}
            self._positions |= newest
        self._has_positions.set()
        if (now_s := asyncio.get_running_loop().time()) >= self._look_at_s:
            await self._look()
            self._look_at_s = now_s + LOOK_S
        ends: Any = {stream.key: self.position(board) or "0-0" for board, stream in self._streams.items()}
        with index_boundary():
            # XREAD tells which streams have grown. They are then read from an entry that must still be there.
            answer: Any = await self._client.xread(ends, block=BLOCK_MS, count=1)
        for key, rows in answer or []:
            await self._read(board := self._boards[key], rows)
            await self._grown(board)

    async def _read(self, board: str, first: Sequence[Any]) -> None:
        """Read on a stream whose next entry is `first`."""
        if board in self._lost:
            await self._skip(board)
            return
        stream, position = self._streams[board], self._positions[board]
        try:
            page = await stream.after(position) if position else stream.page(first)
        except StreamTrimmed:
            await self._skip(board)
        else:
            self._positions[board] = page.last_id
            self._hear(board, page.changes)

    async def _skip(self, board: str) -> None:
        """Continue from the newest entry, and tell the listeners of the gap before it."""
        newest = await self._streams[board].newest_id()
        self._positions[board] = newest
        self._lost.discard(board)
        self._begin_again(board, newest)

    async def _look(self) -> None:
        """Find streams that started again: those that are gone or behind our position."""
        for board, last_id in self._positions.items():
            if last_id is None or board in self._lost:
                continue
            newest = await self._streams[board].newest_id()
            if newest is None:
                self._lost.add(board)
            elif position_of(newest) < position_of(last_id):
                await self._skip(board)
