"""What waits for a commit of the ledger, and how its outcome is told."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation
from policies.errors import LedgerUnavailable

GROUP_LIMIT: Final = 512
"""Most writes in one commit; bounds the memory and the latency of a group."""

REFUSED_S: Final = 2.0
"""For how long a refused submission speaks against readiness: twice the time after which its client comes again."""


@dataclass(slots=True)
class Append:
    """A submission to be appended, and whom to tell."""

    new: NewSubmission
    answer: asyncio.Future[Receipt]


@dataclass(slots=True)
class Work:
    """An operation to be done, and whom to tell."""

    work: Operation[Any]
    answer: asyncio.Future[Any]


Write = Append | Work
Outcome = tuple[Write, Any, BaseException | None]
"""A write with its result, or with what it raised."""


class Refusals:
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
        except LedgerUnavailable:
            self._last_s = time.monotonic()
            raise
        self._last_s = -math.inf

    @property
    def are_recent(self) -> bool:
        """True for REFUSED_S after a refusal."""
        return time.monotonic() < self._last_s + REFUSED_S


def tell(outcomes: Sequence[Outcome]) -> None:
    """Gives every write its outcome; on the event loop. Who no longer waits is not told."""
    for write, result, error in outcomes:
        if write.answer.done():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
