"""Batches of what many requests want of Redis at the same moment: one call for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from policies.errors import IndexUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]
_Waiting = tuple[Item, asyncio.Future[Answer] | None]


class Batcher(Generic[Item, Answer]):
    """A sender of items in batches: those of one loop tick, or those that came during the last call.

    `send` returns one answer per item, in order. A call takes at most `limit` items, and at most `waiting`
    wait: further callers get IndexUnavailable. If `send` fails, every caller of the batch gets its error.
    Cancelling a caller does not affect the others. Items gather for `linger_s` before each call.
    """

    def __init__(
        self, send: Send[Item, Answer], *, limit: int = 256, waiting: int = 16_384, linger_s: float = 0.0
    ) -> None:
        self._send = send
        self._linger_s = linger_s
        self._limit = limit
        self._waiting = waiting
        self._queue: list[_Waiting[Item, Answer]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Answer]:
        """Return a future of the answer to one item. Raises IndexUnavailable if too many wait."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._put(item, answer)
        return answer

    def tell(self, item: Item) -> None:
        """Send an item without waiting for an answer. Raises IndexUnavailable if too many wait."""
        self._put(item, None)

    def _put(self, item: Item, answer: asyncio.Future[Answer] | None) -> None:
        if len(self._queue) >= self._waiting:
            raise IndexUnavailable("too many calls wait for Redis")
        self._queue.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())

    async def drained(self) -> None:
        """Wait until no item is left."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._queue:
                if self._linger_s:
                    await asyncio.sleep(self._linger_s)
                group, self._queue = self._queue[: self._limit], self._queue[self._limit :]
                await self._answer(group)
        finally:
            self._task = None

    async def _answer(self, group: Sequence[_Waiting[Item, Answer]]) -> None:
        waiting = [future for _, future in group]
        try:
            answers = await self._send([item for item, _ in group])
            paired = list(zip(waiting, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - the callers get the error, and the next batch must go out
            _fail(waiting, error)
            return
        for future, answer in paired:
            if future is not None and not future.done():
                future.set_result(answer)


def _fail(waiting: Sequence[asyncio.Future[Any] | None], error: Exception) -> None:
    for future in waiting:
        if future is not None and not future.done():
            future.set_exception(error)
