"""Background tasks that end with the block that started them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.05
"""Time between two cancellations of a task that is still running."""


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], *, name: str) -> AsyncIterator[None]:
    """Run `work` until the block ends, and wait for its end, so that it uses nothing that is closed next."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is done. Its result or error is ignored."""
    while not task.done():
        task.cancel()  # possibly again: redis-py swallows a cancellation while it connects
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
