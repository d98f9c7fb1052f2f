"""The changes, events and time that a returning listener may take before it must read the board again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.index.lane_stream import StreamTrimmed

MOST_CHANGES: Final = 10_000
"""Most changes read, of the board and of all others in its lane: half as many as the stream keeps."""

MOST_EVENTS: Final = 4_096
"""Most events sent. Each has a kilobyte at most, so all have four megabytes at most."""

MOST_S: Final = 1.0
"""Longest time of reading, with Redis' time; the time that the listener takes to receive does not count."""


class CatchUpBudget:
    """The rest of a returning listener's budget. Every method raises StreamTrimmed once it is used up."""

    def __init__(self) -> None:
        self._changes = MOST_CHANGES
        self._events = MOST_EVENTS
        self._left_s = MOST_S

    @contextmanager
    def working(self) -> Iterator[None]:
        """Charge the time of the block."""
        begun_s = time.perf_counter()
        yield
        self._left_s -= time.perf_counter() - begun_s
        self._check()

    def count(self, *, changes: int, events: int) -> None:
        """Charge the changes read and the events sent."""
        self._changes -= changes
        self._events -= events
        self._check()

    def _check(self) -> None:
        if min(self._changes, self._events) < 0 or self._left_s < 0:
            raise StreamTrimmed
