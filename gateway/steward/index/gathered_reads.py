"""Reads of the ledger that share a snapshot when they begin together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.gathering import Gathering
from policies.errors import ScoregateError

T = TypeVar("T")


class Reads(Protocol):
    """The reading half of a ledger."""

    async def read(self, work: Operation[T], /) -> T:
        """Return the result of `work` on one consistent snapshot."""
        ...


class GatheredReads:
    """Reads for several callers at once, each as consistent as alone. Raises what the ledger raises."""

    def __init__(self, ledger: Reads) -> None:
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
            return await self._ledger.read(together)
        except ScoregateError:
            raise
        except Exception:  # noqa: BLE001 - one of them failed, and which one only it itself can tell
            return [await self._alone(work) for work in works]

    async def _alone(self, work: Operation[Any]) -> Any:
        try:
            return await self._ledger.read(work)
        except Exception as error:  # noqa: BLE001 - it is the answer of this one
            return error
