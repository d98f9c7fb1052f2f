"""Queues of reads, one for each kind, so that no kind keeps another from the database.

Each kind has limits: how many reads run at once, how many wait, how long each waits, and how long one takes.
A read beyond them is refused with LedgerOverloaded, because an answer that comes too late helps nobody.

Readers of a kind take turns. One alone may have all of the room; once it is full, a read of another pushes
out the newest of whoever has most waiting ("buffer stealing" of stochastic fairness queueing, McKenney 1990).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextvars import ContextVar
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.runtime.telemetry import READS_REFUSED, READS_WAITING
from policies.errors import LedgerOverloaded


class ReadKind(Enum):
    """The kinds of reads, by who waits for them."""

    REQUESTS = "requests"
    """Reads that a submission, a trusted server's request or an authentication needs, a moderator's too."""
    PLAYERS = "players"
    """Reads of players about themselves."""
    PAGES = "pages"
    """Public pages, each of a bounded number of rows."""
    HEAVY = "heavy"
    """Public reads that cost more than a page: distributions, details, boards as they stood."""
    MODERATION = "moderation"
    """Reads of moderators."""
    DUTIES = "duties"
    """Reads of the steward, the workers, the commands and the metrics."""
    COMPARISONS = "comparisons"
    """Reads that compare the index with the ledger: large ones, behind which no verdict may wait."""


BY_READER: Final = frozenset({ReadKind.PLAYERS, ReadKind.PAGES, ReadKind.HEAVY, ReadKind.MODERATION})
"""Kinds whose readers take turns: a stranger can cause as many of these as they like."""

READER: Final[ContextVar[str]] = ContextVar("READER", default="")
"""Who reads in this context: a hashed address, or a moderator; empty for the deployment itself."""


class ReadLimits(NamedTuple):
    """Limits of a kind of read: reads at once, reads that may wait and for how long, and time of one read."""

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
        ReadKind.DUTIES: ReadLimits(2, 16_384, 60.0, 60.0),
        ReadKind.COMPARISONS: ReadLimits(1, 16_384, 60.0, 60.0),
    }
)
"""Duties and comparisons bound themselves, so they wait rather than fail."""

CONNECTIONS: Final = sum(limits.at_once for limits in READ_LIMITS.values())
"""Most reads of one process at once, each on a connection of its own."""


def limits_with_pages(pages: int) -> Mapping[ReadKind, ReadLimits]:
    """Return the limits with so many pages under way or waiting."""
    limits = READ_LIMITS[ReadKind.PAGES]
    at_once = min(limits.at_once, pages)
    return {**READ_LIMITS, ReadKind.PAGES: limits._replace(at_once=at_once, waiting=pages - at_once)}


class ReadQueue:
    """The queue of one kind of read: readers take turns, and each is served as they came.

    It belongs to one event loop.
    """

    def __init__(self, kind: ReadKind, limits: ReadLimits) -> None:
        self.limits = limits
        self._free = limits.at_once
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0
        self._kind = kind
        self._shown = READS_WAITING.labels(kind.value)

    async def enter(self) -> None:
        """Wait for a place and take it; `leave` gives it back. Raises LedgerOverloaded."""
        if self._free:
            self._free -= 1
            return
        reader = READER.get() if self._kind in BY_READER else ""
        if self._count >= self.limits.waiting and not self._has_pushed_out_for(reader):
            raise self._refusal("too many wait")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(reader, deque()).append(place)
        self._note(+1)
        try:
            await asyncio.wait_for(asyncio.shield(place), self.limits.patience_s)
        except BaseException as error:
            self._withdraw(reader, place)
            if isinstance(error, TimeoutError):
                raise self._refusal(f"none was free for {self.limits.patience_s:g} s") from None
            raise

    def leave(self) -> None:
        """Give the place to the reader whose turn it is, for their read that has waited longest."""
        if not self._waiting:
            self._free += 1
            return
        reader, places = self._waiting.popitem(last=False)
        places.popleft().set_result(None)
        if places:
            self._waiting[reader] = places  # behind the others
        self._note(-1)

    def _has_pushed_out_for(self, reader: str) -> bool:
        """Refuse the newest read of whoever has most waiting, if that is more than the reader would have."""
        if not reader:
            return False
        most = max((other for other in self._waiting if other), key=self._number_of, default="")
        if self._number_of(most) <= self._number_of(reader) + 1:
            return False
        self._waiting[most].pop().set_exception(self._refusal("too many of one reader wait"))
        self._note(-1)
        return True

    def _number_of(self, reader: str) -> int:
        return len(self._waiting.get(reader, ()))

    def _withdraw(self, reader: str, place: asyncio.Future[None]) -> None:
        if place.done():
            if place.exception() is None:  # it was given just as its wait ended
                self.leave()
            return
        places = self._waiting[reader]
        places.remove(place)
        if not places:
            del self._waiting[reader]
        self._note(-1)

    def _note(self, more: int) -> None:
        self._count += more
        self._shown.set(self._count)

    def _refusal(self, reason: str) -> LedgerOverloaded:
        READS_REFUSED.labels(self._kind.value).inc()
        return LedgerOverloaded(f"reads of the kind {self._kind.value}: {reason}")


class ReadQueues:
    """The queues of all kinds of reads."""

    def __init__(self, read_limits: Mapping[ReadKind, ReadLimits]) -> None:
        self._queues = {kind: ReadQueue(kind, limits) for kind, limits in read_limits.items()}

    def __getitem__(self, kind: ReadKind) -> ReadQueue:
        return self._queues[kind]
