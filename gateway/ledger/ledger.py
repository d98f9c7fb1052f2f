"""What every ledger does, whichever database carries it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from gateway.ledger.reads import ReadKind
from gateway.ledger.records import NewSubmission, Receipt
from gateway.ledger.transaction import Operation

T = TypeVar("T")


class Ledger(Protocol):
    """The truth. Every method fails closed with LedgerUnavailable, and then nothing is half written."""

    async def open(self) -> None:
        """Makes the ledger ready for use. Raises LedgerUnavailable."""
        ...

    async def close(self) -> None:
        """Commits what is queued, then closes."""
        ...

    async def append(self, new: NewSubmission) -> Receipt:
        """What stands in the ledger under this submission's id, once it is durable. Raises LedgerOverloaded."""
        ...

    async def write(self, work: Operation[T]) -> T:
        """The result of `work`, once it is durable. What `work` raises undoes it alone. Raises LedgerOverloaded."""
        ...

    async def read(self, work: Operation[T], kind: ReadKind = ReadKind.DUTIES) -> T:
        """The result of `work` on one consistent snapshot. Raises LedgerOverloaded if too many of its kind wait."""
        ...

    @property
    def is_refusing(self) -> bool:
        """True if a submission was just refused because the database failed, and none was stored since."""
        ...
