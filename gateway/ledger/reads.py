"""Reads wait by kind, each kind in a queue of its own, so that none can keep another from the database.

A kind has so many reads under way at once, a bound on how many wait, on how long each waits, and on how long one takes.
What goes beyond is refused at once with LedgerOverloaded: an answer that comes too late helps nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.runtime.telemetry import READS_REFUSED, READS_WAITING
from policies.errors import LedgerOverloaded


class ReadKind(Enum):
    """Whom a read is for."""

    REQUESTS = "requests"
    """What a submission, a trusted server's request or an authentication needs."""
    PLAYERS = "players"
    """What players see of themselves."""
    PAGES = "pages"
    """Public pages, each of a bounded number of rows."""
    HEAVY = "heavy"
    """Public reads that cost more than a page: distributions, details, boards as they stood."""
    MODERATION = "moderation"
    """What moderators look at."""
    DUTIES = "duties"
    """What the steward, the workers, the commands and the metrics read."""


class ReadLimits(NamedTuple):
    """How many reads of a kind are under way at once, how many may wait, how long each, and how long one may take."""

    at_once: int
    waiting: int
    patience_s: float
    limit_s: float


READ_LIMITS: Final[Mapping[ReadKind, ReadLimits]] = MappingProxyType(
    {
        ReadKind.REQUESTS: ReadLimits(3, 512, 2.0, 5.0),
        ReadKind.PLAYERS: ReadLimits(2, 256, 2.0, 5.0),
        ReadKind.PAGES: ReadLimits(2, 30, 2.0, 5.0),
        ReadKind.HEAVY: ReadLimits(2, 16, 2.0, 5.0),
        ReadKind.MODERATION: ReadLimits(1, 32, 5.0, 10.0),
        ReadKind.DUTIES: ReadLimits(3, 16_384, 60.0, 60.0),
    }
)
"""Duties are ours and bound themselves; they wait rather than fail."""

CONNECTIONS: Final = sum(limits.at_once for limits in READ_LIMITS.values())
"""Most connections of one process that read at once."""


def limits_with_pages(pages: int) -> Mapping[ReadKind, ReadLimits]:
    """Return the limits with so many pages under way or waiting."""
    limits = READ_LIMITS[ReadKind.PAGES]
    at_once = min(limits.at_once, pages)
    return {**READ_LIMITS, ReadKind.PAGES: limits._replace(at_once=at_once, waiting=pages - at_once)}


class ReadQueue:
    """The reads of one kind, first come, first served. It belongs to one event loop."""

    def __init__(self, kind: ReadKind, limits: ReadLimits) -> None:
        self.limits = limits
        self._free = limits.at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._kind = kind
        self._shown = READS_WAITING.labels(kind.value)

    async def enter(self) -> None:
        """Takes a place, as soon as there is one; `leave` gives it back. Raises LedgerOverloaded."""
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= self.limits.waiting:
            raise self._refusal("too many wait")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._shown.set(len(self._waiting))
        try:
            await asyncio.wait_for(asyncio.shield(place), self.limits.patience_s)
        except BaseException as error:
            self._withdraw(place)
            if isinstance(error, TimeoutError):
                raise self._refusal(f"none was free for {self.limits.patience_s:g} s") from None
            raise

    def leave(self) -> None:
        """Gives a place to who waits longest."""
        if not self._waiting:
            self._free += 1
            return
        self._waiting.popleft().set_result(None)
        self._shown.set(len(self._waiting))

    def _withdraw(self, place: asyncio.Future[None]) -> None:
        if place.done():  # it was given in the moment in which its wait ended
            self.leave()
            return
        self._waiting.remove(place)
        self._shown.set(len(self._waiting))

    def _refusal(self, why: str) -> LedgerOverloaded:
        READS_REFUSED.labels(self._kind.value).inc()
        return LedgerOverloaded(f"reads of the kind {self._kind.value}: {why}")


class ReadQueues:
    """A queue for each kind of read."""

    def __init__(self, read_limits: Mapping[ReadKind, ReadLimits]) -> None:
        self._queues = {kind: ReadQueue(kind, limits) for kind, limits in read_limits.items()}

    def __getitem__(self, kind: ReadKind) -> ReadQueue:
        return self._queues[kind]
