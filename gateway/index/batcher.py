"""Gathers what many requests want of Redis at the same moment into one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from policies.errors import IndexUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]
_Asked = tuple[Item, asyncio.Future[Answer] | None]


class Batcher(Generic[Item, Answer]):
    """Sends all items of one loop tick together, and while a call is under way gathers the next ones.

    `send` gives one answer per item, in order. At most `limit` items go in a call and `waiting` may wait; past that
    the caller gets IndexUnavailable, and when `send` fails what it failed with. Who stops waiting harms nobody else.
    `linger_s` is how long items gather before each call.
    """

    def __init__(
        self, send: Send[Item, Answer], *, limit: int = 256, waiting: int = 16_384, linger_s: float = 0.0
    ) -> None:
        self._send = send
        self._linger_s = linger_s
        self._limit = limit
        self._waiting = waiting
        self._queue: list[_Asked[Item, Answer]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Answer]:
        """A future of the answer to one item. Raises IndexUnavailable if too many wait."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._put(item, answer)
        return answer

    def tell(self, item: Item) -> None:
        """Has an item sent whose answer nobody waits for. Raises IndexUnavailable if too many wait."""
        self._put(item, None)

    def _put(self, item: Item, answer: asyncio.Future[Answer] | None) -> None:
        if len(self._queue) >= self._waiting:
            raise IndexUnavailable("too much is waiting for Redis")
        self._queue.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())

    async def drained(self) -> None:
        """Returns once nothing waits."""
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

    async def _answer(self, group: Sequence[_Asked[Item, Answer]]) -> None:
        waiting = [future for _, future in group]
        try:
            answers = await self._send([item for item, _ in group])
            paired = list(zip(waiting, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, and the next batch must go
            _fail(waiting, error)
            return
        for future, answer in paired:
            if future is not None and not future.done():
                future.set_result(answer)


def _fail(waiting: Sequence[asyncio.Future[Any] | None], error: Exception) -> None:
    for future in waiting:
        if future is not None and not future.done():
            future.set_exception(error)
