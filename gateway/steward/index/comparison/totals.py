"""How many standings are below the heads of a board's windows, on boards with `exact_ranks`."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.index import keys
from gateway.index.windows.heads import Head, Heads
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.transaction import Transaction
from gateway.steward.index.comparison.difference import BoardView, Difference, Kind, Subjects, Walk


class Totals:
    """The number of all standings of a window: those of the head, and those that are counted below it."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._heads = Heads(view.index)

    def walks(self) -> Sequence[Walk]:
        """Over the windows that the index shows."""
        return (self._windows,)

    async def _windows(self, _count: int) -> Subjects:
        for window in await self._view.windows():
            yield [window]

    async def compare(self, subjects: Sequence[str]) -> list[Difference]:
        """Windows that are said to have more standings than they have, or fewer."""
        found = []
        for window in subjects:
            head = await self._heads.of(window)
            total = await self._total(window)
            if head.total != total:
                found.append(self._difference(window, head, total))
        return found

    async def repair(self, found: Sequence[Difference]) -> None:
        """Counts as below what is not in the head, unless that changes meanwhile."""
        for each in found:
            head = await self._heads.of(each.subject)
            below = await self._total(each.subject) - head.entries
            await self._heads.recount(each.subject, head, max(0, below))

    async def _total(self, window: str) -> int:
        async def work(tx: Transaction) -> int:
            return await RankedWindow(tx, self._view.index.ranking, window).total()

        return await self._view.ledger.read(work)

    def _difference(self, window: str, head: Head, total: int) -> Difference:
        return Difference(
            self._view.board,
            Kind.WRONG_TOTAL,
            window=window,
            key=keys.members(self._view.board, window),
            ledger=f"{total}",
            index=f"{head.entries} and {head.below} below, version {head.version}",
            subject=window,
        )
