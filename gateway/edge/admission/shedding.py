"""Load shedding: writes that could not be answered in time are refused before any work is done for them.

The capacity depends on the machine, the disk and its other load, so it is measured instead of configured. A
new write waits for as long as the number of writes under way divided by the rate at which they leave
(Little's law). Writes that wait for an object store or a slow client are not under way here, since nobody
queues behind them.
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
"""Writes under way that are always admitted, since fewer tell no rate."""

PART_WAITED: Final = 1 / 6
"""The part of the time to answer that a write may wait; the rest is for its work and for hiccups."""

PART_UNREAD: Final = 1 / 4
"""The part of the time to answer that may pass before a request is read; older requests are refused."""

PART_OLDEST: Final = 1 / 12
"""The age of the oldest write, as a part of the time to answer, under which a burst is no queue."""

WINDOW_S: Final = 0.2
"""Time over which leaving writes are counted before the rate is updated."""

NEWEST_WEIGHT: Final = 0.5
"""The weight of the newest window in the rate."""

OVERLOADED: Final = "more writes arrive than can be answered in time"

RETRY_S: Final = (1, 5)
"""The range of `Retry-After`, drawn for each refusal so that clients do not return together."""

_shed = SHED.labels("entrance")


class Visit:
    """A write under way, which may step aside while it waits for something else."""

    __slots__ = ("_entrance", "_waited_s", "is_inside", "until_s")

    def __init__(self, entrance: Entrance, waited_s: float) -> None:
        """Make a visit of a request that waited `waited_s` before it was read."""
        self._entrance = entrance
        self._waited_s = waited_s
        self.is_inside = False
        self.until_s = entrance.until_s() - waited_s

    def begin(self) -> None:
        """Start its time to answer, since the whole request is there, and enter."""
        self.until_s = self._entrance.until_s() - self._waited_s
        self.enter()

    def enter(self) -> None:
        """Count it as under way, once."""
        if not self.is_inside:
            self.is_inside = True
            self._entrance.enter(self)

    def leave(self) -> None:
        """Count it as done. A task that it started and that goes on has no deadline."""
        self.until_s = math.inf
        if self.is_inside:
            self.is_inside = False
            self._entrance.leave(self)

    def hand_over(self) -> float:
        """Expect its request once more instead of counting it, and return how long that has waited (s).

        The visit that goes on has the same deadline.
        """
        self.is_inside = False
        return self._entrance.expect_again(self)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Step aside during the block, whose time does not count."""
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
    """The writes under way and the rate at which they leave. It belongs to one event loop."""

    def __init__(
        self,
        answer_within_s: float,
        *,
        index_timeout_s: float = 0.0,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`index_timeout_s` is how long Redis may delay each write, which is added to the time to answer."""
        self._within_s = answer_within_s + index_timeout_s
        self._queued_s = answer_within_s * PART_WAITED + index_timeout_s
        self.now_s = monotonic_s
        self._under_way: dict[Visit, float] = {}
        self._rate: float | None = None
        self._began_s = 0.0
        self._left = 0
        self._expected = 0

    def visit(self, waited_s: float | None = None) -> Visit:
        """Begin the visit of a write. Raises `temporary-reduced-capacity` if it would be answered too late.

        `waited_s` is how long it had waited when it was admitted unparsed, None if it was not.
        """
        if waited_s is None and self.is_full():
            _shed.inc()
            raise overload_problem()
        visit = Visit(self, waited_s or 0.0)
        WAITER.set(visit)
        return visit

    def until_s(self) -> float:
        """Return the deadline for a request that arrives now."""
        return self.now_s() + self._within_s

    @property
    def is_busy(self) -> bool:
        """Return whether so many writes are under way that others may be waiting."""
        return len(self._under_way) + self._expected >= ALWAYS

    def admit_unparsed(self, waited_s: Callable[[], float]) -> float | None:
        """Return how long an unparsed request has waited (s), and expect it; None if it is refused."""
        delay_s = None if self.is_full() else waited_s()
        if delay_s is None or delay_s > self._within_s * PART_UNREAD:
            _shed.inc()
            return None
        self._expected += 1
        return delay_s

    def expect_again(self, visit: Visit) -> float:
        """Expect the request of a visit that is under way, and return how long it has waited (s)."""
        self.forget(visit)
        self._expected += 1
        return self.until_s() - visit.until_s

    def forget_expected(self) -> None:
        """Expect one request less: it has come, or its client has left."""
        self._expected -= 1

    def is_full(self) -> bool:
        """Return whether a write that comes now would wait too long."""
        if not self.is_busy or not self._under_way:
            return False
        count = len(self._under_way) + self._expected
        now_s = self.now_s()
        self._update_rate(now_s)
        oldest_s = now_s - next(iter(self._under_way.values()))
        if self._rate is None or oldest_s < self._within_s * PART_OLDEST:
            return False
        return count > self._rate * self._queued_s

    def enter(self, visit: Visit) -> None:
        """Count a visit as under way."""
        now_s = self.now_s()
        if not self._under_way:  # the rate from before an idle time may be wrong now
            self._rate, self._began_s, self._left = None, now_s, 0
        self._under_way[visit] = now_s

    def leave(self, visit: Visit) -> None:
        """Count a visit as done."""
        self.forget(visit)
        self._left += 1
        self._update_rate(self.now_s())

    def forget(self, visit: Visit) -> None:
        """Count a visit as neither under way nor done."""
        del self._under_way[visit]

    def _update_rate(self, now_s: float) -> None:
        length_s = now_s - self._began_s
        if length_s < WINDOW_S:
            return
        newest = self._left / length_s
        # A long window, in which nobody came or left, weighs as much as all the windows that fit into it.
        weight = 1 - (1 - NEWEST_WEIGHT) ** (length_s / WINDOW_S)
        self._rate = newest if self._rate is None else self._rate + weight * (newest - self._rate)
        self._began_s, self._left = now_s, 0


def overload_problem() -> Problem:
    """Return the refusal of a write that cannot be answered in time."""
    retry_s = random.randint(*RETRY_S)  # noqa: S311 - no secret depends on it
    return Problem(ProblemType.REDUCED_CAPACITY, OVERLOADED, headers={"Retry-After": str(retry_s)})


VISIT: Final = web.RequestKey("visit", Visit)
"""The visit of a request that may write."""


def begin_visit(request: web.Request) -> None:
    """Start the time to answer once the whole request is there, so that a slow client delays only itself."""
    visit = request.get(VISIT)
    if visit is not None and not visit.is_inside:
        visit.begin()
