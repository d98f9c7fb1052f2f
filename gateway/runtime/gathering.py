"""Calls that begin at the same time, made together: what a call costs is mostly the way there and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Call = TypeVar("Call")
Answer = TypeVar("Answer")


class Gathering(Generic[Call, Answer]):
    """Calls that are gathered for as long as somebody is ready to run in the event loop.

    `make_all` makes several and returns the answer of each, or the error of each. What it raises is the error
    of all.
    """

    def __init__(
        self, make_all: Callable[[Sequence[Call]], Awaitable[Sequence[Answer | BaseException]]]
    ) -> None:
        self._make_all = make_all
        self._waiting: list[tuple[Call, asyncio.Future[Answer]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def make(self, call: Call) -> Answer:
        """Make a call, together with those that begin now, and return its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((call, answer))
        if len(self._waiting) == 1:
            loop.call_soon(self._begin)
        return await answer

    def _begin(self) -> None:
        gathered, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(self._answer(gathered))
        self._under_way.add(task)  # the event loop itself holds on to no task
        task.add_done_callback(self._under_way.discard)

    async def _answer(self, gathered: Sequence[tuple[Call, asyncio.Future[Answer]]]) -> None:
        wanted = [(call, future) for call, future in gathered if not future.done()]
        answers: Sequence[Answer | BaseException]
        try:
            answers = await self._make_all([call for call, _ in wanted]) if wanted else ()
        except Exception as error:  # noqa: BLE001 - it is told to everyone who waits
            answers = [error] * len(wanted)
        except asyncio.CancelledError:
            for _, future in wanted:
                future.cancel()
            raise
        for (_, future), answer in zip(wanted, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
