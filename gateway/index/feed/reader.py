"""Reading change streams on, once a process: where each was read to is known, and a hole is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Redis

from gateway.index.changes import ChangeStream, StandingChange, StreamTrimmed, position_of
from gateway.index.connection import BLOCK_MS
from gateway.index.scripts import index_boundary
from gateway.runtime.background import ended
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable

RETRY_S: Final = 1.0

UNEXPECTED_S: Final = 5.0
"""Pause after a failure that nobody foresaw."""

POSITION_S: Final = 2.0
"""How long a listener waits, when the process has just begun, for the reader to know where the streams are: what came
before that is told to nobody. Without Redis there is nothing to wait for."""

LOOK_S: Final = 5.0
"""How often it looks whether the streams still are where it read them to. One that begins again below that (Redis was
emptied, and its clock is behind) would never wake it."""


class ChangeReader:
    """Reads some streams on from their ends. Fails open: without Redis it waits, and goes on where it was.

    `hear` is given changes of a board in order; `begin_again` the id from which the next ones come, when what was
    before it could not be read. `grown` is
    called with a board whose stream has grown.
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
        """The boards whose streams it reads."""
        return self._streams

    def start(self) -> None:
        """Begins to read."""
        self._task = asyncio.create_task(self._read_for_ever(), name="live-feed")

    def read_too(self, board: str, stream: ChangeStream) -> None:
        """Reads one stream more from now on, and the others on from where they are."""
        self._streams[board] = stream
        self._boards[stream.key] = board
        self._has_positions.clear()
        if self._turning is None or self._turning.done():
            self._turning = asyncio.create_task(self._turn(), name="live-feed-turn")

    async def _turn(self) -> None:
        """Breaks off the read that waits, which does not name the new stream."""
        await self._end()
        self.start()

    async def stop(self) -> None:
        """Ends reading."""
        if self._turning is not None:
            await self._turning
        await self._end()

    async def _end(self) -> None:
        if self._task:
            await ended(self._task)

    async def ready(self, board: str) -> None:
        """Returns once the end of a board's stream is known, or after POSITION_S without Redis."""
        if board in self._positions:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITION_S):
                await self._has_positions.wait()

    def position(self, board: str) -> str | None:
        """The id of the last entry that was read of a board; None while there was none."""
        return None if board in self._lost else self._positions.get(board)

    async def _read_for_ever(self) -> None:
        while True:
            try:
                await self._read_once()
            except IndexUnavailable:
                self._look_at_s = 0.0
                # Of a stream that had no entry, nothing can tell whether it is still the same one.
                self._lost |= {board for board, last_id in self._positions.items() if last_id is None}
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 - without it every live feed would stand still
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
            # It says which streams have grown: they are read from an entry that must still be there.
            answer: Any = await self._client.xread(ends, block=BLOCK_MS, count=1)
        for key, rows in answer or []:
            await self._read(board := self._boards[key], rows)
            await self._grown(board)

    async def _read(self, board: str, first: Sequence[Any]) -> None:
        """Reads a stream on, of which `first` is the next entry."""
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
        """Goes on from the newest entry, and says so: what came before it cannot be told without a hole."""
        newest = await self._streams[board].newest_id()
        self._positions[board] = newest
        self._lost.discard(board)
        self._begin_again(board, newest)

    async def _look(self) -> None:
        """Finds streams that begin anew: gone, which is told when they are there again, or behind where we are."""
        for board, last_id in self._positions.items():
            if last_id is None or board in self._lost:
                continue
            newest = await self._streams[board].newest_id()
            if newest is None:
                self._lost.add(board)
            elif position_of(newest) < position_of(last_id):
                await self._skip(board)
