"""The queue of writes that wait for a commit of the ledger, and the answers that their callers get."""

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
"""Most writes in one commit. Bounds the memory and the latency of a group."""

REFUSED_S: Final = 2.0
"""Time that a refused submission speaks against readiness: twice that after which its client tries again.
"""


@dataclass(slots=True)
class QueuedAppend:
    """A submission to append, the future of its caller, and when the caller gives up (monotonic seconds)."""

    new: NewSubmission
    answer: asyncio.Future[Receipt] | AnswerInGroup
    until_s: float = math.inf


@dataclass(slots=True)
class QueuedOperation:
    """An operation to perform, the future of its caller, and when the caller gives up (monotonic seconds)."""

    work: Operation[Any]
    answer: asyncio.Future[Any]
    until_s: float = math.inf


QueuedWrite = QueuedAppend | QueuedOperation
WriteOutcome = tuple[QueuedWrite, Any, BaseException | None]
"""A write with its result, or with the error that it raised."""


class GroupAnswers:
    """The outcomes of appends that came together, and one future that is done once all of them are known."""

    def __init__(self, count: int) -> None:
        self.outcomes: list[Receipt | BaseException | None] = [None] * count
        self.are_known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing = count

    def note(self, at: int, outcome: Receipt | BaseException) -> None:
        """Note the outcome of one append."""
        self.outcomes[at] = outcome
        self._missing -= 1
        if not self._missing and not self.are_known.done():
            self.are_known.set_result(None)


class AnswerInGroup:
    """The place of one append among those that came together, told as a future is."""

    __slots__ = ("_answers", "_at")

    def __init__(self, answers: GroupAnswers, at: int) -> None:
        self._answers = answers
        self._at = at

    def done(self) -> bool:
        """Return whether nobody waits for the outcome."""
        return self._answers.are_known.done()

    def set_result(self, receipt: Receipt) -> None:
        """Note a receipt."""
        self._answers.note(self._at, receipt)

    def set_exception(self, error: BaseException) -> None:
        """Note an error."""
        self._answers.note(self._at, error)


class AppendRefusals:
    """Remembers whether the database just failed to store a submission, and has stored none since.

    No other write can stand for a submission: on a full disk, PostgreSQL goes on taking what fits into the
    pages that it has.
    """

    def __init__(self) -> None:
        self._last_s = -math.inf

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note how the block ends, which waits until a submission is stored."""
        try:
            yield
        except LedgerUnavailable as error:
            self.note(error)
            raise
        self.note(None)

    def note(self, error: BaseException | None) -> None:
        """Note the error of an append, None for one that is stored."""
        if error is None:
            self._last_s = -math.inf
        elif isinstance(error, LedgerUnavailable) and not isinstance(error, LedgerOverloaded):
            self._last_s = time.monotonic()  # a busy database is no failing one

    @property
    def are_recent(self) -> bool:
        """Return whether the last refusal is less than REFUSED_S old."""
        return time.monotonic() < self._last_s + REFUSED_S


class GroupedWrites:
    """The writing half of a ledger: writes wait in a queue for the commit that they share with others.

    Writing raises LedgerOverloaded if too many writes wait, if one has waited past its deadline, or if the
    ledger is about to close.
    """

    def __init__(
        self,
        waiting: SimpleQueue[QueuedWrite | None] | asyncio.Queue[QueuedWrite | None],
        *,
        queue_limit: int,
        group_limit: int,
    ) -> None:
        self._waiting = waiting
        self._queue_limit = queue_limit
        self._group_limit = group_limit
        self._is_closing = False
        self._refusals = AppendRefusals()

    async def append(self, new: NewSubmission) -> Receipt:
        """Store a submission, and return the receipt of what is stored under its id, once that is durable."""
        reach(Point.BEFORE_APPEND)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._enqueue(QueuedAppend(new, answer, _until_s()))
        with self._refusals.noted():
            receipt = await answer
        reach(Point.BEFORE_PEND)
        return receipt

    async def append_all(
        self, group: Sequence[tuple[NewSubmission, float]]
    ) -> Sequence[Receipt | BaseException]:
        """Store submissions, each with the deadline of its caller (monotonic s), with one wait for all.

        Return the outcome of each, in order: what `append` returns or raises.
        """
        answers = GroupAnswers(len(group))
        for at, (new, until_s) in enumerate(group):
            answer = AnswerInGroup(answers, at)
            try:
                reach(Point.BEFORE_APPEND)
                self._enqueue(QueuedAppend(new, answer, until_s))
            except Exception as error:  # noqa: BLE001 - it belongs to this submission, and others go on
                answer.set_exception(error)
        await answers.are_known
        return [self._noted_outcome(outcome) for outcome in answers.outcomes]

    def _noted_outcome(self, outcome: Receipt | BaseException | None) -> Receipt | BaseException:
        assert outcome is not None
        error = outcome if isinstance(outcome, BaseException) else None
        self._refusals.note(error)
        if error is None:
            try:
                reach(Point.BEFORE_PEND)
            except Exception as fault:  # noqa: BLE001 - as above
                return fault
        return outcome

    async def write(self, work: Operation[T]) -> T:
        """Return the result of `work`, once it is durable.

        An error of `work` undoes it alone, not its group.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._enqueue(QueuedOperation(work, answer, _until_s()))
        return await answer

    @property
    def is_refusing(self) -> bool:
        """Return whether the database just failed to store a submission, and has stored none since."""
        return self._refusals.are_recent

    def _enqueue(self, write: QueuedWrite) -> None:
        if self._is_closing or self._waiting.qsize() >= self._queue_limit:
            raise LedgerOverloaded
        self._waiting.put_nowait(write)

    def _group_from(self, first: QueuedWrite | None) -> tuple[list[QueuedWrite], bool]:
        """Return `first` with the writes that wait behind it, and whether the queue ends there.

        None ends it.
        """
        write, group = first, []
        while write is not None:
            group.append(write)
            if len(group) == self._group_limit or self._waiting.empty():
                return group, False
            write = self._waiting.get_nowait()
        return group, True


def _until_s() -> float:
    until_s = deadline_s()
    return math.inf if until_s is None else until_s


def in_time(group: Sequence[QueuedWrite]) -> tuple[list[QueuedWrite], list[WriteOutcome]]:
    """Split a group into the writes that somebody still waits for and the refusals of the others.

    The others are never stored: an answer that says so must stay true.
    """
    now_s = time.monotonic()
    wanted = [write for write in group if write.until_s > now_s]
    late = [write for write in group if write.until_s <= now_s]
    if late:
        SHED.labels("ledger").inc(len(late))
    return wanted, [
        (write, None, LedgerOverloaded("it waited too long; nothing was stored")) for write in late
    ]


def tell(outcomes: Sequence[WriteOutcome]) -> None:
    """Give every caller the outcome of its write, on the event loop.

    A caller that was cancelled gets none.
    """
    for write, result, error in outcomes:
        if write.answer.done():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
