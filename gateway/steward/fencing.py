"""The fence: what a steward writes to the ledger counts only while the lease it works under is good."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

from gateway.ledger.leases import Lease, fenced
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation
from gateway.runtime.failpoints import Point, reach
from policies.errors import LeaseLost

T = TypeVar("T")

RECENT_S: Final = 0.05
"""Time for which duties that look less often go by the version of the one that looks most often."""

# A task that a duty starts has a copy of this, and so the lease of when it began: never a later one.
_lease: Final[ContextVar[Lease | None]] = ContextVar("lease", default=None)


@contextmanager
def working_under(lease: Lease) -> Iterator[None]:
    """Do what the block does, and what the tasks do that it starts, under a lease."""
    token = _lease.set(lease)
    try:
        yield
    finally:
        _lease.reset(token)


class Fence(Protocol):
    """The leases of a steward, as the fence needs them."""

    is_kept: bool

    def lose(self, lease: Lease) -> None:
        """Note that a write under the lease was refused, because another steward has it."""
        ...


class FencedLedger:
    """The ledger for a steward's duties. Each write compares the lease of its duty in its own transaction.

    While the leases are kept, a write under none is refused. Its other methods are the ledger's.
    """

    def __init__(self, ledger: Ledger, fence: Fence) -> None:
        self._ledger = ledger
        self._fence = fence
        self._version: object = None
        self._asked_s = float("-inf")

    async def open(self) -> None:
        """Make the ledger ready for use. Raises LedgerUnavailable."""
        await self._ledger.open()

    async def close(self) -> None:
        """Commit what is queued, then close."""
        await self._ledger.close()

    async def append(self, new: NewSubmission) -> Receipt:
        """Refuse: no duty stores submissions."""
        raise LeaseLost(f"a duty must not store {new.submission.submission_id}")

    async def append_all(
        self, group: Sequence[tuple[NewSubmission, float]]
    ) -> Sequence[Receipt | BaseException]:
        """Refuse, as `append` does."""
        raise LeaseLost(f"a duty must not store {len(group)} submissions")

    async def write(self, work: Operation[T]) -> T:
        """Return the result of `work`, once it is durable. Raises LeaseLost if another has the lease."""
        lease = _lease.get()
        if lease is None and not self._fence.is_kept:
            return await self._ledger.write(work)
        if lease is None:
            raise LeaseLost("a duty writes under no lease")
        reach(Point.BEFORE_FENCED_WRITE)
        try:
            return await self._ledger.write(fenced(lease, work))
        except LeaseLost:
            self._fence.lose(lease)
            raise

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:
        """Return the result of `work` on one consistent snapshot."""
        return await self._ledger.read(work, kind)

    async def version(self) -> object:
        """Return a value that equals an earlier one only if nothing was committed in between."""
        asked_s = time.monotonic()
        self._version = await self._ledger.version()
        self._asked_s = asked_s
        return self._version

    async def recent_version(self) -> object:
        """Return the version as of the last RECENT_S, which another duty may have asked for."""
        is_recent = time.monotonic() - self._asked_s < RECENT_S
        return self._version if is_recent else await self.version()

    @property
    def is_refusing(self) -> bool:
        """Return whether the database just failed to store a submission, and has stored none since."""
        return self._ledger.is_refusing
