"""Until when the answer to what this task does is of use: what cannot be done by then is not begun."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol


class Waiter(Protocol):
    """Somebody who waits for an answer until `until_s` of the monotonic clock."""

    until_s: float

    def aside(self) -> AbstractContextManager[None]:
        """Is not kept waiting by us during the block, and gets the time back that it takes."""
        ...


WAITER: Final[ContextVar[Waiter | None]] = ContextVar("waiting", default=None)
"""Who waits for what this task does; None for what nobody waits for, such as duties."""


def deadline_s() -> float | None:
    """The deadline on the monotonic clock, None without one."""
    waiting = WAITER.get()
    return waiting.until_s if waiting else None


def aside() -> AbstractContextManager[None]:
    """For the wait for somebody who is not us, as a bucket: it counts neither as ours nor against the deadline."""
    waiting = WAITER.get()
    return waiting.aside() if waiting else nullcontext()
