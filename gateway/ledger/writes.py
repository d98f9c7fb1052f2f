"""What waits for a commit of the ledger, and how its outcome is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation

GROUP_LIMIT: Final = 512
"""Most writes in one commit; bounds the memory and the latency of a group."""


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


def tell(outcomes: Sequence[Outcome]) -> None:
    """Gives every write its outcome; on the event loop. Who no longer waits is not told."""
    for write, result, error in outcomes:
        if write.answer.done():
            continue
        if error is None:
            write.answer.set_result(result)
        else:
            write.answer.set_exception(error)
