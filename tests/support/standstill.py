"""Threads of the product that a test has stand still: they go on when the test is over, however it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 60.0


class Standstill:
    """A place where threads stop; neither they nor who waits for them wait for ever."""

    def __init__(self) -> None:
        self._there, self._may_go_on = threading.Semaphore(0), threading.Event()

    def stand(self) -> None:
        """Say that a thread is here, and keep it until it may go on."""
        self._there.release()
        assert self._may_go_on.wait(PATIENCE_S), "nobody let it go on"

    async def reached(self, threads: int = 1) -> None:
        """Return once so many threads have come."""
        for _ in range(threads):
            assert await asyncio.to_thread(self._there.acquire, timeout=PATIENCE_S), "no thread came"

    def end(self) -> None:
        """Let all go on that are here or come later."""
        self._may_go_on.set()


@contextmanager
def standstill() -> Iterator[Standstill]:
    made = Standstill()
    try:
        yield made
    finally:
        made.end()
