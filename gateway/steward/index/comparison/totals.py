"""The counts of standings below the heads of windows, on boards with `exact_ranks`."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.index import keys
from gateway.index.windows.heads import Head, Heads
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.transaction import Transaction
from gateway.steward.index.comparison.difference import BoardView, Difference, Kind, Subjects, Walk


class Totals:
    """The total of each window's standings: the entries of its head, plus the count below it."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._heads = Heads(view.index)

    def walks(self) -> Sequence[Walk]:
        """Return the walk over the windows that the index shows."""
        return (self._windows,)

    async def _windows(self, _count: int) -> Subjects:
        for window in await self._view.windows():
            yield [window]

    async def compare(self, subjects: Sequence[str]) -> list[Difference]:
        """Return the windows whose total is wrong."""
        differences = []
        for window in subjects:
            head = await self._heads.of(window)
            total = await self._total(window)
            if head.total != total:
                differences.append(self._difference(window, head, total))
        return differences

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Set the count below each head, unless the head changes meanwhile."""
        for difference in differences:
            head = await self._heads.of(difference.subject)
            below = await self._total(difference.subject) - head.entries
            await self._heads.recount(difference.subject, head, max(0, below))

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
