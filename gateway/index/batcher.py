"""Batches of what many requests want of Redis at the same moment: one call for all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from policies.errors import IndexUnavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]


class _Waiting(NamedTuple, Generic[Item, Answer]):
    """Items that came together: the future of one answer, of the list of all answers, or of nobody."""

    items: Sequence[Item]
    one: asyncio.Future[Answer] | None = None
    all: asyncio.Future[Sequence[Answer]] | None = None

    def tell(self, answers: Sequence[Answer]) -> None:
        """Give the answers to whoever waits for them."""
        if self.one is not None and not self.one.done():
            self.one.set_result(answers[0])
        if self.all is not None and not self.all.done():
            self.all.set_result(answers)

    def fail(self, error: Exception) -> None:
        """Give an error to whoever waits."""
        for future in (self.one, self.all):
            if future is not None and not future.done():
                future.set_exception(error)


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
        self._queue: deque[_Waiting[Item, Answer]] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Answer]:
        """Return a future of the answer to one item. Raises IndexUnavailable if too many wait."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._put(_Waiting((item,), one=answer))
        return answer

    def ask_all(self, items: Sequence[Item]) -> asyncio.Future[Sequence[Answer]]:
        """Return one future of the answers to items, which go in one call.

        Raises IndexUnavailable if too many wait.
        """
        answers: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._put(_Waiting(items, all=answers))
        return answers

    def tell_all(self, items: Sequence[Item]) -> None:
        """Send items in one call, without waiting for answers. Raises IndexUnavailable if too many wait."""
        self._put(_Waiting(items))

    def _put(self, waiting: _Waiting[Item, Answer]) -> None:
        if self._size >= self._waiting:
            raise IndexUnavailable("too many calls wait for Redis")
        self._queue.append(waiting)
        self._size += len(waiting.items)
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
                await self._answer(self._next_group())
        finally:
            self._task = None

    def _next_group(self) -> list[_Waiting[Item, Answer]]:
        """Take as many items as one call takes; those that came together stay together."""
        group = [self._queue.popleft()]
        count = len(group[0].items)
        while self._queue and count + len(self._queue[0].items) <= self._limit:
            group.append(self._queue.popleft())
            count += len(group[-1].items)
        self._size -= count
        return group

    async def _answer(self, group: Sequence[_Waiting[Item, Answer]]) -> None:
        items = [item for waiting in group for item in waiting.items]
        try:
            answers = [answer for _, answer in zip(items, await self._send(items), strict=True)]
        except Exception as error:  # noqa: BLE001 - the callers get the error, and the next batch must go out
            for waiting in group:
                waiting.fail(error)
            return
        at = 0
        for waiting in group:
            end = at + len(waiting.items)
            waiting.tell(answers[at:end])
            at = end
