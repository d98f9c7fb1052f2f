"""The deadline of the current task's answer. Work that cannot end by then is not begun."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol


class Waiter(Protocol):
    """A caller who waits for an answer until `until_s` of the monotonic clock."""

    until_s: float

    def aside(self) -> AbstractContextManager[None]:
        """Return a context that adds the time of its block to the deadline, and does not count it as ours."""
        ...


WAITER: Final[ContextVar[Waiter | None]] = ContextVar("waiting", default=None)
"""The caller who waits for this task; None if nobody does, as for a duty."""


def deadline_s() -> float | None:
    """Return the deadline on the monotonic clock (s), None without one."""
    waiting = WAITER.get()
    return waiting.until_s if waiting else None


def aside() -> AbstractContextManager[None]:
    """Return a context for waiting on a third party, such as a bucket: its time counts for no deadline."""
    waiting = WAITER.get()
    return waiting.aside() if waiting else nullcontext()
