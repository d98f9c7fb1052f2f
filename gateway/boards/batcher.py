"""Gathers what many requests want of Redis at the same moment into one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from policies.errors import IndexUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]


class Batcher(Generic[Item, Answer]):
    """Sends all items of one loop tick together, and while a call is under way gathers the next ones.

    `send` gives one answer per item, in order. At most `limit` items go in a call and `waiting` may wait; past that
    the caller gets IndexUnavailable, and when `send` fails what it failed with. Who stops waiting harms nobody else.
    """

    def __init__(self, send: Send[Item, Answer], *, limit: int = 256, waiting: int = 16_384) -> None:
        self._send = send
        self._limit = limit
        self._waiting = waiting
        self._queue: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Answer]:
        """A future of the answer to one item. Raises IndexUnavailable if too many wait."""
        if len(self._queue) >= self._waiting:
            raise IndexUnavailable("too much is waiting for Redis")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append((item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return answer

    async def drained(self) -> None:
        """Returns once nothing waits."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._queue:
                group, self._queue = self._queue[: self._limit], self._queue[self._limit :]
                await self._answer(group)
        finally:
            self._task = None

    async def _answer(self, group: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._send([item for item, _ in group])
            paired = list(zip(group, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, and the next batch must go
            _fail(group, error)
            return
        for (_, future), answer in paired:
            if not future.done():
                future.set_result(answer)


def _fail(group: Sequence[tuple[Item, asyncio.Future[Answer]]], error: Exception) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(error)
            if isinstance(error, IndexUnavailable):
                future.exception()  # nobody need be waiting: not having the index is no error of its own
