"""What waits for a commit of the ledger, and how its outcome is told."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation
from gateway.runtime.deadline import deadline_s
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import SHED
from policies.errors import LedgerOverloaded, LedgerUnavailable

T = TypeVar("T")

GROUP_LIMIT: Final = 512
"""Most writes in one commit; bounds the memory and the latency of a group."""

REFUSED_S: Final = 2.0
"""For how long a refused submission speaks against readiness: twice the time after which its client comes again."""


@dataclass(slots=True)
class QueuedAppend:
    """A submission to be appended, and whom to tell."""

    new: NewSubmission
    answer: asyncio.Future[Receipt]
    until_s: float = math.inf


@dataclass(slots=True)
class QueuedOperation:
    """An operation to be done, and whom to tell."""

    work: Operation[Any]
    answer: asyncio.Future[Any]
    until_s: float = math.inf


QueuedWrite = QueuedAppend | QueuedOperation
WriteOutcome = tuple[QueuedWrite, Any, BaseException | None]
"""A write with its result, or with what it raised."""


class AppendRefusals:
    """Whether a submission was just refused because the database failed, and none was stored since.

    No other write can stand for that of a submission: on a full disk, PostgreSQL goes on taking what fits into the
    pages that it has.
    """

    def __init__(self) -> None:
        self._last_s = -math.inf

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes how the block, which waits for a submission to be stored, ends."""
        try:
            yield
        except LedgerOverloaded:
            raise  # it does nothing but work
        except LedgerUnavailable:
            self._last_s = time.monotonic()
            raise
        self._last_s = -math.inf

    @property
    def are_recent(self) -> bool:
        """True for REFUSED_S after a refusal."""
        return time.monotonic() < self._last_s + REFUSED_S


class GroupedWrites:
    """What is the same of every ledger: writes wait in a queue for the commit that they share with others.

    Raises LedgerOverloaded when too many wait, one has waited past its deadline, or the ledger is about to close.
    """

    def __init__(
        self,
        waiting: SimpleQueue[QueuedWrite | None] | asyncio.Queue[QueuedWrite | None],
        *,
        queue_limit: int,
    ) -> None:
        self._waiting = waiting
        self._queue_limit = queue_limit
        self._is_closing = False
        self._refusals = AppendRefusals()

    async def append(self, new: NewSubmission) -> Receipt:
        """What stands in the ledger under this submission's id, once it is durable."""
        reach(Point.BEFORE_APPEND)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._enqueue(QueuedAppend(new, answer, _until_s()))
        with self._refusals.noted():
            receipt = await answer
        reach(Point.BEFORE_PEND)
        return receipt

    async def write(self, work: Operation[T]) -> T:
        """The result of `work`, once it is durable. What `work` raises undoes it alone, not its group."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(QueuedOperation(work, answer, _until_s()))
        return await answer

    @property
    def is_refusing(self) -> bool:
        """True if a submission was just refused because the database failed, and none was stored since."""
        return self._refusals.are_recent

    def _enqueue(self, write: QueuedWrite) -> None:
        if self._is_closing or self._waiting.qsize() >= self._queue_limit:
            raise LedgerOverloaded
        self._waiting.put_nowait(write)


def _until_s() -> float:
    until_s = deadline_s()
    return math.inf if until_s is None else until_s


def in_time(group: Sequence[QueuedWrite]) -> tuple[list[QueuedWrite], list[WriteOutcome]]:
    """The writes of a group that are still waited for, and the others with their refusal: those are never stored."""
    now_s = time.monotonic()
    wanted = [write for write in group if write.until_s > now_s]
    late = [write for write in group if write.until_s <= now_s]
    if late:
        SHED.labels("ledger").inc(len(late))
    return wanted, [
        (write, None, LedgerOverloaded("it waited too long; nothing was stored")) for write in late
    ]


def tell(outcomes: Sequence[WriteOutcome]) -> None:
    """Gives every write its outcome; on the event loop. Who no longer waits is not told."""
    for write, result, error in outcomes:
        if write.answer.done():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
