"""Parts that a process makes at their first use and lets go when they are not used."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from gateway.runtime.background import rest
from gateway.runtime.telemetry import CACHED_BOARDS, CACHED_BOARDS_DROPPED

Part = TypeVar("Part")

BOARDS_LIMIT: Final = 4096
"""Boards of which a process keeps parts, unless its settings say otherwise."""

IDLE_S: Final = 600.0
"""Time without a use after which a part is let go."""

SWEEP_S: Final = 30.0
"""Time between two looks for idle parts, for a process that uses no part meanwhile."""


class BoundedCache(Generic[Part]):
    """At most `limit` parts by the names of their boards. The one used longest ago goes first.

    Nothing may be lost with a part: whoever still holds it goes on with it, and the next use makes another.
    """

    def __init__(
        self,
        kind: str,
        *,
        limit: int,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a cache that metrics call `kind`."""
        self._limit = limit
        self._idle_s = idle_s
        self._clock = clock
        self._parts: OrderedDict[str, tuple[Part, float]] = OrderedDict()
        self._size = CACHED_BOARDS.labels(kind)
        self._full = CACHED_BOARDS_DROPPED.labels(kind, "full")
        self._idle = CACHED_BOARDS_DROPPED.labels(kind, "idle")

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._parts)

    def get(self, name: str) -> Part | None:
        """Return the part of this name, which counts as a use; None without one."""
        entry = self._parts.get(name)
        if entry is None:
            return None
        self._parts[name] = (entry[0], self._clock())
        self._parts.move_to_end(name)
        return entry[0]

    def put(self, name: str, part: Part) -> None:
        """Keep a part under this name, instead of any other, and let go of those that are over the limit."""
        self._parts[name] = (part, self._clock())
        self._parts.move_to_end(name)
        while len(self._parts) > self._limit:
            self._parts.popitem(last=False)
            self._full.inc()
        self.let_go_of_idle()

    def of(self, name: str, make: Callable[[], Part]) -> Part:
        """Return the part of this name, made now if there is none."""
        part = self.get(name)
        if part is None:
            self.put(name, part := make())
        return part

    def drop(self, name: str) -> None:
        """Let go of a part, if there is one."""
        self._parts.pop(name, None)
        self._size.set(len(self._parts))

    def let_go_of_idle(self) -> None:
        """Let go of the parts that nobody used for the idle time."""
        since_s = self._clock() - self._idle_s
        while self._parts and next(iter(self._parts.values()))[1] <= since_s:
            self._parts.popitem(last=False)
            self._idle.inc()
        self._size.set(len(self._parts))


async def let_go_of_idle(caches: Sequence[BoundedCache[Any]]) -> None:
    """Let these caches go of what is idle, again and again. Never returns."""
    while True:
        await rest(SWEEP_S)
        for bounded in caches:
            bounded.let_go_of_idle()
