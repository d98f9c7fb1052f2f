"""Concurrent calls with a limit, because the connections that they need are limited too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(works: Iterable[Awaitable[T]], *, at_once: int) -> list[T]:
    """Await all of these, and return their results in order. Raises the first error once all have ended."""
    turns, waiting = asyncio.Semaphore(at_once), list(works)

    async def one(work: Awaitable[T]) -> T:
        async with turns:
            return await work

    try:
        results = await asyncio.gather(*map(one, waiting), return_exceptions=True)
    finally:
        for work in waiting:  # one that was cancelled before its turn would complain that nobody awaited it
            if asyncio.iscoroutine(work):
                work.close()
    answers: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers
