"""The live feed: one reader of the change streams, many listeners, each able to resume where it left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.boards import keys
from gateway.boards.connection import BLOCK_MS
from policies.model import Order

LISTENER_LIMIT: Final = 256
"""Changes a slow listener may fall behind before it is dropped; it resumes by the id of the last one it had."""

RESUME_PAGE: Final = 500
"""Changes read at once for a listener that comes back."""

RETRY_S: Final = 1.0

POSITION_S: Final = 2.0
"""How long a listener waits, when the process has just begun, for the reader to know where the streams are: what came
before that is told to nobody. Without Redis there is nothing to wait for."""

CANCEL_AGAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class StandingChange:
    """A standing changed. `stream_id` orders the feed; `score` and `rank` None: the player stands there no more."""

    stream_id: str
    window: str
    player: str
    name: str
    score: int | None
    rank: int | None
    submission_id: str


Listener = asyncio.Queue[StandingChange | None]


class LiveFeed:
    """The changes of all boards as they happen. Fails open: without Redis listeners wait, and resume after."""

    def __init__(self, blocking: Redis, orders: dict[str, Order]) -> None:
        self._client = blocking
        self._orders = orders
        self._listeners: dict[str, set[Listener]] = {board: set() for board in orders}
        self._has_position = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read."""
        self._task = asyncio.create_task(self._read_for_ever(), name="live-feed")

    async def stop(self) -> None:
        """Ends reading and lets every listener go."""
        while self._task and not self._task.done():
            self._task.cancel()  # more than once if need be: redis-py swallows a cancellation while it connects
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN_S)
        self.release()

    def listeners(self, board: str) -> int:
        """How many follow a board now."""
        return len(self._listeners[board])

    def release(self) -> None:
        """Lets every listener go; each can resume elsewhere."""
        for listener in [each for group in self._listeners.values() for each in group]:
            _end(listener)

    @asynccontextmanager
    async def listen(
        self, board: str, after: str | None = None
    ) -> AsyncIterator[AsyncIterator[StandingChange]]:
        """The changes of a board from now on, preceded by those after stream id `after`.

        They end, without an error, for a listener that fell too far behind or could not be told what it missed: it
        comes back with the id of the last one it had.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITION_S):
                await self._has_position.wait()
        listener: Listener = asyncio.Queue(maxsize=LISTENER_LIMIT)
        self._listeners[board].add(listener)
        try:
            yield self._changes(board, listener, after)
        finally:
            self._listeners[board].discard(listener)

    async def _changes(
        self, board: str, listener: Listener, after: str | None
    ) -> AsyncIterator[StandingChange]:
        last = after or ""
        try:
            async for change in self._missed(board, after):
                last = change.stream_id
                yield change
        except (RedisError, OSError):
            return
        while (change_or_end := await listener.get()) is not None:
            if _position(change_or_end.stream_id) > _position(last):
                yield change_or_end

    async def _missed(self, board: str, after: str | None) -> AsyncIterator[StandingChange]:
        """What happened after `after`, up to now, a page at a time."""
        while after:
            rows: Any = await self._client.xrange(keys.changes(board), min=f"({after}", count=RESUME_PAGE)
            for change in self._changes_in(board, rows):
                yield change
            after = rows[-1][0] if len(rows) == RESUME_PAGE else None

    async def _read_for_ever(self) -> None:
        boards = {keys.changes(board): board for board in self._orders}
        positions: dict[str, str] = {}
        while True:
            try:
                if not positions:
                    positions = {key: await self._newest(key) for key in boards}
                    self._has_position.set()
                answer: Any = await self._client.xread(positions, block=BLOCK_MS, count=500)  # type: ignore[arg-type]
            except (RedisError, OSError):
                await asyncio.sleep(RETRY_S)
                continue
            for key, rows in answer or []:
                positions[key] = rows[-1][0]
                self._publish(boards[key], self._changes_in(boards[key], rows))

    async def _newest(self, key: str) -> str:
        """The id of the last change; reading from `$` instead would miss what comes between two reads."""
        rows = await self._client.xrevrange(key, count=1)
        return str(rows[0][0]) if rows else "0-0"

    def _publish(self, board: str, changes: Iterable[StandingChange]) -> None:
        for change in changes:
            for listener in tuple(self._listeners[board]):
                try:
                    listener.put_nowait(change)
                except asyncio.QueueFull:
                    self._listeners[board].discard(listener)
                    _end(listener)

    def _changes_in(self, board: str, rows: Iterable[tuple[str, dict[str, str]]]) -> Iterator[StandingChange]:
        """The changes among entries of the stream; what we never wrote so is no change."""
        for stream_id, fields in rows:
            with suppress(KeyError, ValueError):
                yield self._change(board, stream_id, fields)

    def _change(self, board: str, stream_id: str, fields: dict[str, str]) -> StandingChange:
        stands = fields["order"] != ""
        return StandingChange(
            stream_id,
            fields["window"],
            fields["player"],
            fields["name"],
            keys.order_value(int(fields["order"]), self._orders[board]) if stands else None,
            int(fields["rank"]) if stands else None,
            fields["submission"],
        )


def _end(listener: Listener) -> None:
    # All that it has not seen goes, not the oldest alone: it resumes from the last one it saw, so a hole would stay.
    while not listener.empty():
        listener.get_nowait()
    listener.put_nowait(None)


def _position(stream_id: str) -> tuple[int, int]:
    milliseconds, _, counter = stream_id.partition("-")
    return int(milliseconds or 0), int(counter or 0)
