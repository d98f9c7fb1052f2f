"""Measures the processor time of work for somebody, also where it goes on in a task or a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from types import coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

CHARGED_NS: Final = 5_000_000
"""Time after which a feed is charged again, long before it ends."""


class CostMeter:
    """Sums up CPU time in nanoseconds, and passes it to `charge` in microseconds.

    It is CPU time because callers do not pay for a busy machine.
    """

    def __init__(self, charge: Callable[[float], None] = lambda _: None) -> None:
        self.ns = 0
        self._charged_ns = 0
        self._charge = charge

    def add(self, ns: int) -> None:
        """Add time, and charge it once enough has come together."""
        self.ns += ns
        if self.ns - self._charged_ns >= CHARGED_NS:
            self.settle()

    def settle(self) -> None:
        """Charge the time that is not charged yet."""
        if self.ns > self._charged_ns:  # a page that somebody else has drawn took nothing
            self._charge((self.ns - self._charged_ns) / 1000)
            self._charged_ns = self.ns


METER: Final[ContextVar[CostMeter | None]] = ContextVar("METER", default=None)
"""The meter of whom this context works for, which the tasks that it begins have as well."""


async def on_account(work: Awaitable[T]) -> T:
    """Return the result of work that gets a task of its own, and add its time to the meter of the context.

    In the task of a request, whose steps are measured already, it would be counted twice.
    """
    meter = METER.get()
    return await (work if meter is None else metered(work, meter))


async def thread_on_account(work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of work in a thread, and add its time to the meter of the context.

    It is added also if nobody waits for the result any more.
    """
    meter, loop = METER.get(), asyncio.get_running_loop()

    def timed() -> T:
        begun_ns = time.thread_time_ns()
        try:
            return work(*arguments)
        finally:
            if meter is not None and not loop.is_closed():
                loop.call_soon_threadsafe(meter.add, time.thread_time_ns() - begun_ns)

    return await asyncio.to_thread(timed)


@coroutine
def metered(work: Awaitable[T], meter: CostMeter) -> Generator[Any, Any, T]:
    """Run `work`, return its result, and add the time that it runs, but not that it waits, to `meter`."""
    steps = work.__await__()
    step: Callable[[], Any] = lambda: next(steps)  # noqa: E731 - the next step differs each time
    while True:
        begun_ns = time.thread_time_ns()
        try:
            awaited = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            meter.add(time.thread_time_ns() - begun_ns)
        step = yield from _answered(awaited, steps)


def _answered(awaited: Any, steps: Generator[Any, Any, T]) -> Generator[Any, Any, Callable[[], Any]]:
    """Wait for `awaited`, and return the step that passes its result or error on."""
    try:
        answer = yield awaited
    except BaseException as error:  # noqa: BLE001 - any error, also a cancellation, belongs to the work
        thrown = error
        return lambda: steps.throw(thrown)
    return lambda: steps.send(answer)
