"""Reads of the ledger that share a snapshot when they begin together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.gathering import Gathering
from policies.errors import LedgerUnavailable

T = TypeVar("T")


class GatheredReads:
    """Reads for several callers at once, each as consistent as alone. Raises what the ledger raises."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._gathering: Gathering[Operation[Any], Any] = Gathering(self._read_all)

    async def read(self, work: Operation[T], /) -> T:
        """Return the result of `work` on a snapshot that was not there before the call."""
        result: T = await self._gathering.make(work)
        return result

    async def _read_all(self, works: Sequence[Operation[Any]]) -> Sequence[Any]:
        async def together(tx: Transaction) -> list[Any]:
            return [await work(tx) for work in works]

        try:
            return await self._ledger.read(together, ReadKind.COMPARISONS)
        except LedgerUnavailable:
            if len(works) == 1 or await self._is_away(works):
                raise  # otherwise one of them takes too long, or meets a damaged page
        except Exception:  # noqa: BLE001, S110 - one of them failed, and which one only it itself can tell
            pass
        return [await self._alone(work) for work in works]

    async def _is_away(self, works: Sequence[Operation[Any]]) -> bool:
        """Return whether the ledger cannot be read at all: not even for the first and the last of these.

        Reads of one board are neighbours, so a board with a damaged page is seldom at both ends.
        """
        ends = [await self._alone(work) for work in (works[0], works[-1])]
        return all(isinstance(end, LedgerUnavailable) for end in ends)

    async def _alone(self, work: Operation[Any]) -> Any:
        try:
            return await self._ledger.read(work, ReadKind.COMPARISONS)
        except Exception as error:  # noqa: BLE001 - it is the answer of this one
            return error
