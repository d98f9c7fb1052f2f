"""What stays in the memory of an edge of clients that leave, while nobody collects cycles."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable

from aiohttp import web


async def requests_that_stay(leave: Callable[[], Awaitable[None]]) -> int:
    """How many requests of ten clients stay. `leave` has one come, leave and be noticed."""
    await leave()
    gc.collect()
    gc.disable()
    try:
        before = _requests()
        for _ in range(10):
            await leave()
        return _requests() - before
    finally:
        gc.enable()


def _requests() -> int:
    return sum(isinstance(each, web.BaseRequest) for each in gc.get_objects())
