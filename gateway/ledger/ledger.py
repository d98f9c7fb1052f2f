"""The ledger as the rest of the gateway sees it, on either database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gateway.ledger.reads import ReadKind
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation

T = TypeVar("T")


class LedgerReads(Protocol):
    """The reading half of a ledger, for duties and audits."""

    async def read(self, work: Operation[T], /) -> T:
        """Return the result of `work` on one consistent snapshot."""
        ...


class Ledger(LedgerReads, Protocol):
    """The source of truth.

    Every method fails closed with LedgerUnavailable, and then nothing is half written.
    """

    async def open(self) -> None:
        """Make the ledger ready for use. Raises LedgerUnavailable."""
        ...

    async def close(self) -> None:
        """Commit what is queued, then close."""
        ...

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:
        """Return the result of `work` on one consistent snapshot.

        Raises LedgerOverloaded if too many reads of its kind wait.
        """
        ...

    async def append(self, new: NewSubmission) -> Receipt:
        """Store a submission, and return the receipt of what is stored under its id, once that is durable.

        Raises LedgerOverloaded if too many writes wait.
        """
        ...

    async def append_all(
        self, group: Sequence[tuple[NewSubmission, float]]
    ) -> Sequence[Receipt | BaseException]:
        """Store submissions, each with the deadline of its caller (monotonic s), with one wait for all.

        Return the outcome of each, in order: what `append` returns or raises.
        """
        ...

    async def write(self, work: Operation[T]) -> T:
        """Return the result of `work`, once it is durable. An error of `work` undoes it alone.

        Raises LedgerOverloaded if too many writes wait.
        """
        ...

    async def version(self) -> object:
        """Return a value that equals an earlier one only if nothing was committed in between.

        It costs less than any read. Raises LedgerUnavailable.
        """
        ...

    @property
    def is_refusing(self) -> bool:
        """Return whether the database just failed to store a submission, and has stored none since."""
        ...
