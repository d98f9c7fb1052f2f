"""Concurrent calls with a limit, because the connections that they need are limited too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(works: Iterable[Awaitable[T]], *, at_once: int) -> list[T]:
    """Await all of these, and return their results in order. Raises the first error once all have ended."""
    turns = asyncio.Semaphore(at_once)

    async def one(work: Awaitable[T]) -> T:
        async with turns:
            return await work

    results = await asyncio.gather(*map(one, works), return_exceptions=True)
    answers: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers
