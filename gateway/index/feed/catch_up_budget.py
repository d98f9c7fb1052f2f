"""How much of the past one listener is told at once: so many changes and events, for so long, and then it is a hole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.index.changes import StreamTrimmed

MOST_CHANGES: Final = 10_000
"""Changes that are looked through: about as many as the stream of a board keeps."""

MOST_EVENTS: Final = 4_096
"""Events that come of them. None has more than a kilobyte, so that they have four megabytes at most."""

MOST_S: Final = 1.0
"""Time that looking takes, with what Redis takes; what a listener takes to read is its own."""


class CatchUpBudget:
    """What one listener that comes back may still be told. Every method raises StreamTrimmed once that is used up."""

    def __init__(self) -> None:
        self._changes = MOST_CHANGES
        self._events = MOST_EVENTS
        self._left_s = MOST_S

    @contextmanager
    def working(self) -> Iterator[None]:
        """Counts the time that the block takes."""
        begun_s = time.perf_counter()
        yield
        self._left_s -= time.perf_counter() - begun_s
        self._check()

    def count(self, *, changes: int, events: int) -> None:
        """Counts what was looked at, and what is told of it."""
        self._changes -= changes
        self._events -= events
        self._check()

    def _check(self) -> None:
        if min(self._changes, self._events) < 0 or self._left_s < 0:
            raise StreamTrimmed
