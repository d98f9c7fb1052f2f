"""Runs the clients: on an event loop, or without one, where every coroutine ends without ever waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from .errors import ScoregateError

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]
"""Waits for a time (s), or less."""


class Runner(Protocol):
    """What a client asks of whatever runs it."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return what a function returns that waits for a disk."""

    def hinted(self, hints: AsyncGenerator[object, None]) -> AbstractAsyncContextManager[Pause]:
        """Give a pause that ends early when there is a hint, if anything can wait for one meanwhile."""


class AsyncioRunner:
    """Runs a client on asyncio's event loop."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return what a function returns, called on another thread."""
        return await asyncio.to_thread(function)

    @asynccontextmanager
    async def hinted(self, hints: AsyncGenerator[object, None]) -> AsyncGenerator[Pause, None]:
        """Give a pause that ends early when there is a hint."""
        hinted = asyncio.Event()

        async def listen() -> None:
            with suppress(ScoregateError):  # without hints the pauses are whole
                async with aclosing(hints):
                    async for _ in hints:
                        hinted.set()

        async def pause(seconds: float) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(hinted.wait(), seconds)
            hinted.clear()

        listening = asyncio.create_task(listen())
        try:
            yield pause
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening


class BlockingRunner:
    """Runs a client without an event loop. Its coroutines block, and never suspend."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 - no loop runs here

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Return what a function returns."""
        return function()

    @asynccontextmanager
    async def hinted(self, hints: AsyncGenerator[object, None]) -> AsyncGenerator[Pause, None]:
        """Give a pause that is whole: nothing can listen meanwhile."""
        await hints.aclose()
        yield self.sleep


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine of which nothing suspends."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise RuntimeError("A synchronous client needs a transport and a runner that never suspend.")
