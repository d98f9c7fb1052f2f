"""Doing many things at once, but never more than so many: the connections that they need have a bound too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_turns(works: Iterable[Awaitable[T]], *, at_once: int) -> list[T]:
    """What each of these gives, in their order. All are tried; then it raises what the first of those raised that failed."""
    turns = asyncio.Semaphore(at_once)

    async def one(work: Awaitable[T]) -> T:
        async with turns:
            return await work

    found = await asyncio.gather(*map(one, works), return_exceptions=True)
    answers: list[T] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        answers.append(each)
    return answers
