"""Refuses, before anything is done for them, writes that could not be answered in time.

How many could is no number that one can set: it depends on the machine, on the disk and on what else runs. So it is
measured: those under way, divided by how many leave in a second, is how long a new one would wait (Little's law). What
waits for a bucket or for a slow client is not under way here: that is nobody's queue.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from gateway.edge.problems import Problem, ProblemType
from gateway.runtime.deadline import WAITER
from gateway.runtime.telemetry import SHED

ALWAYS: Final = 16
"""So many writes under way are never too many: fewer say nothing about how fast others leave."""

PART_WAITED: Final = 1 / 6
"""The part of the time to answer that may pass in waiting; the rest is for what the machine does between."""

PART_UNREAD: Final = 1 / 4
"""The part of it that may have passed before a request is read; what waited for longer is refused for its age."""

PART_OLDEST: Final = 1 / 12
"""Nobody is refused while the oldest under way is younger: a burst that is dealt with at once is no queue."""

WINDOW_S: Final = 0.2
"""For so long leaving is counted before the rate is told anew."""

NEWEST: Final = 0.5
"""Weight of the newest window in the rate."""

RETRY_S: Final = (1, 5)
"""A client that was refused comes again after so many seconds, drawn anew for each, so that they do not come together."""


_shed = SHED.labels("entrance")


class Visit:
    """One write under way, which may step aside while it waits for somebody else."""

    __slots__ = ("_entrance", "_waited_s", "is_inside", "until_s")

    def __init__(self, entrance: Entrance, waited_s: float) -> None:
        """`waited_s`: how long it was here before it was read."""
        self._entrance = entrance
        self._waited_s = waited_s
        self.is_inside = False
        self.until_s = entrance.until_s() - waited_s

    def begin(self) -> None:
        """Has its time begin: the whole request is there."""
        self.until_s = self._entrance.until_s() - self._waited_s
        self.enter()

    def enter(self) -> None:
        """Counts it as under way, once."""
        if not self.is_inside:
            self.is_inside = True
            self._entrance.enter(self)

    def leave(self) -> None:
        """Counts it as done with. What goes on after it, as a task that it began, has no deadline."""
        self.until_s = math.inf
        if self.is_inside:
            self.is_inside = False
            self._entrance.leave(self)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Is not under way during the block, and gets the time back that it takes."""
        was_inside, self.is_inside = self.is_inside, False
        if was_inside:
            self._entrance.forget(self)
        began_s = self._entrance.now_s()
        try:
            yield
        finally:
            self.until_s += self._entrance.now_s() - began_s
            if was_inside:
                self.enter()


class Entrance:
    """Who is under way, and how fast they leave. It belongs to one event loop."""

    def __init__(
        self,
        answer_within_s: float,
        *,
        index_timeout_s: float = 0.0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`index_timeout_s`: how long Redis may keep each of them waiting, which is not for us to shorten."""
        self._within_s = answer_within_s + index_timeout_s
        self._queued_s = answer_within_s * PART_WAITED + index_timeout_s
        self.now_s = monotonic_s
        self._under_way: dict[Visit, float] = {}
        self._rate: float | None = None
        self._began_s = 0.0
        self._left = 0
        self._expected = 0

    def visit(self, expected: float | None = None) -> Visit:
        """A write that may come in. Raises `temporary-reduced-capacity` if it could not be answered in time.

        `expected`: how long it had waited (s) when it was let in at the door, None if it was not.
        """
        if expected is None and self.is_full():
            _shed.inc()
            raise overload_problem()
        visit = Visit(self, expected or 0.0)
        WAITER.set(visit)
        return visit

    def until_s(self) -> float:
        """Until when a request that is here now is to be answered."""
        return self.now_s() + self._within_s

    @property
    def is_busy(self) -> bool:
        """True while so many are under way that others may be waiting."""
        return len(self._under_way) + self._expected >= ALWAYS

    def admit_unparsed(self, waited_s: Callable[[], float]) -> float | None:
        """How long a request waited (s) that is here but not parsed yet, if it may come in; it is then expected."""
        waited = None if self.is_full() else waited_s()
        if waited is None or waited > self._within_s * PART_UNREAD:
            _shed.inc()
            return None
        self._expected += 1
        return waited

    def forget_expected(self) -> None:
        """Counts one that was let in at the door as having come, or as gone."""
        self._expected -= 1

    def is_full(self) -> bool:
        """True if who comes in now would wait too long."""
        if not self.is_busy or not self._under_way:
            return False
        count = len(self._under_way) + self._expected
        now_s = self.now_s()
        self._tell_rate(now_s)
        oldest_s = now_s - next(iter(self._under_way.values()))
        if self._rate is None or oldest_s < self._within_s * PART_OLDEST:
            return False
        return count > self._rate * self._queued_s

    def enter(self, visit: Visit) -> None:
        """Counts a visit as under way."""
        now_s = self.now_s()
        if not self._under_way:  # idle until now: what was measured before may be no more
            self._rate, self._began_s, self._left = None, now_s, 0
        self._under_way[visit] = now_s

    def leave(self, visit: Visit) -> None:
        """Counts a visit as done with."""
        self.forget(visit)
        self._left += 1
        self._tell_rate(self.now_s())

    def forget(self, visit: Visit) -> None:
        """Counts a visit as neither under way nor done with."""
        del self._under_way[visit]

    def _tell_rate(self, now_s: float) -> None:
        length_s = now_s - self._began_s
        if length_s < WINDOW_S:
            return
        newest = self._left / length_s
        # A window that was long, since nobody came or left, counts for as many as it would have been.
        weight = 1 - (1 - NEWEST) ** (length_s / WINDOW_S)
        self._rate = newest if self._rate is None else self._rate + weight * (newest - self._rate)
        self._began_s, self._left = now_s, 0


def overload_problem() -> Problem:
    """The refusal of what cannot be answered in time."""
    return Problem(ProblemType.REDUCED_CAPACITY, headers={"Retry-After": str(random.randint(*RETRY_S))})  # noqa: S311


VISIT: Final = web.RequestKey("visit", Visit)
"""The visit that a request is, if it may write."""


def begin_visit(request: web.Request) -> None:
    """Has the time to answer begin once the whole request is there: a slow client keeps nobody waiting but itself."""
    visit = request.get(VISIT)
    if visit is not None and not visit.is_inside:
        visit.begin()
