"""Work that goes on while something else does, and that has ended when it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.05


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Has `work` go on until the block ends: nothing of it is left to use what is closed next."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await ended(task)


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return once it is over, whatever comes of it."""
    while not task.done():
        task.cancel()  # more than once if need be: redis-py swallows a cancellation while it connects
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
