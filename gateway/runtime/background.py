"""Background tasks that end with the block that started them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

CANCEL_AGAIN_S: Final = 0.05
"""Time between two cancellations of a task that is still running."""


CANCEL_THREAD_AGAIN_S: Final = 5.0
"""The same for what runs on a thread: time to give back what it has, which another cancellation would cut."""


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


async def rest(seconds: float) -> None:
    """Sleep between two turns of a task that goes on until it is cancelled.

    Raises CancelledError also if the turn before swallowed it: `asyncio.wait_for` does when what it waits for
    ends at that moment, and redis-py while it connects.
    """
    end_if_cancelled()
    await asyncio.sleep(seconds)


def end_if_cancelled() -> None:
    """Raise CancelledError if this task was cancelled and goes on all the same."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


async def run_on_a_thread(work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
    """Run `work` on a thread with an event loop of its own, which goes on while this one is busy.

    Cancellations are passed on, again and again because `work` may swallow some, and its end is waited for.
    Raises what `work` raises.
    """
    loop, own = asyncio.get_running_loop(), asyncio.new_event_loop()
    ended: asyncio.Future[None] = loop.create_future()
    task = own.create_task(work())

    def run() -> None:
        try:
            own.run_until_complete(asyncio.wait([task]))
            own.run_until_complete(own.shutdown_default_executor())
        finally:
            own.close()
            with suppress(RuntimeError):  # the other loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ended.set_result, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        while not ended.done():
            with suppress(RuntimeError):  # it has just ended by itself
                own.call_soon_threadsafe(task.cancel)
            with suppress(asyncio.CancelledError):  # it was passed on already
                await asyncio.wait([ended], timeout=CANCEL_THREAD_AGAIN_S)
        raise
    task.result()
