"""A duty's round over the boards that are due, none of which delays the others for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.steward.failures import Failures
from policies.errors import LeaseLost, LedgerUnavailable

PATIENCE_S: Final = 30.0
"""How long a round waits at its end for boards that take long, such as large ones in a rebuild."""

AT_ONCE: Final = 4
"""Boards that a duty works on at once, those of rounds before among them."""

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
        Raises LedgerUnavailable: after all of them, since one board may have a damaged page, but once as many
        as are at work at once had no ledger.
        """
        refusals: list[LedgerUnavailable] = []
        done = self._collect(refusals)
        started = []
        try:
            for name, step in steps.items():
                if name in self._unfinished:
                    continue
                while len(self._unfinished) >= AT_ONCE:
                    await asyncio.wait(self._unfinished.values(), return_when=asyncio.FIRST_COMPLETED)
                    done += self._collect(refusals)
                    if len(refusals) >= AT_ONCE:
                        raise refusals[0]
                self._unfinished[name] = task = asyncio.ensure_future(step())
                started.append(task)
            if started:
                await asyncio.wait(started, timeout=self._patience_s)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        done += self._collect(refusals)
        if refusals:
            raise refusals[0]
        return done

    async def aclose(self) -> None:
        """Cancel the unfinished boards."""
        tasks = list(self._unfinished.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._unfinished.clear()

    def _collect(self, refusals: list[LedgerUnavailable]) -> int:
        """Return what the steps that have finished did, and add those to `refusals` that had no ledger."""
        done = 0
        for name, task in list(self._unfinished.items()):
            if task.done():
                del self._unfinished[name]
                try:
                    done += self._result_of(name, task)
                except LedgerUnavailable as error:
                    refusals.append(error)
        return done

    def _result_of(self, name: str, task: asyncio.Task[int]) -> int:
        try:
            done = task.result()
        except LedgerUnavailable:
            raise  # counted by the caller: it ends the round once as many as are at work have no ledger
        except LeaseLost:
            return 0  # another steward does this board's duties now
        except Exception as error:  # noqa: BLE001 - a board's failure must not stop the others
            self._failures.note(self._duty, name, error)
            return 0
        self._failures.clear(self._duty, name)
        return done
