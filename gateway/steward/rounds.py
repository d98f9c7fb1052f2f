"""A duty's round over the boards that are due, none of which delays the others for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.steward.failures import Failures
from policies.errors import LeaseLost, LedgerUnavailable

PATIENCE_S: Final = 30.0
"""How long a round waits for one board, such as a large one in a rebuild, before it goes on to the next."""

UNFINISHED: Final = 4
"""Most boards that continue so at once; with more, the round waits for one of them."""

Step = Callable[[], Awaitable[int]]


class Round:
    """One duty on the boards that are due for it."""

    def __init__(self, duty: str, failures: Failures, *, patience_s: float = PATIENCE_S) -> None:
        self._duty = duty
        self._failures = failures
        self._patience_s = patience_s
        self._unfinished: dict[str, asyncio.Task[int]] = {}

    async def step(self, steps: Mapping[str, Step]) -> int:
        """Do the duty on each of these boards and return the amount of work done.

        A board that has not finished its last step is passed over. Notes a board's failure.
        Raises LedgerUnavailable.
        """
        done = sum([self._collect(name) for name, task in list(self._unfinished.items()) if task.done()])
        for name, step in steps.items():
            if name not in self._unfinished:
                done += await self._start(name, step)
        return done

    async def aclose(self) -> None:
        """Cancel the unfinished boards."""
        tasks = list(self._unfinished.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._unfinished.clear()

    async def _start(self, name: str, step: Step) -> int:
        while len(self._unfinished) >= UNFINISHED:
            await asyncio.wait(self._unfinished.values(), return_when=asyncio.FIRST_COMPLETED)
            for finished in [other for other, task in self._unfinished.items() if task.done()]:
                self._collect(finished)
        self._unfinished[name] = task = asyncio.ensure_future(step())
        try:
            await asyncio.wait([task], timeout=self._patience_s)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self._collect(name) if task.done() else 0

    def _collect(self, name: str) -> int:
        """Return what a board's finished step did."""
        task = self._unfinished.pop(name)
        try:
            done = task.result()
        except LedgerUnavailable:
            raise  # no other board can reach it either
        except LeaseLost:
            return 0  # another steward does this board's duties now
        except Exception as error:  # noqa: BLE001 - a board's failure must not stop the others
            self._failures.note(self._duty, name, error)
            return 0
        self._failures.clear(self._duty, name)
        return done
