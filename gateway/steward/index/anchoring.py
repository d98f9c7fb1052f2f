"""Keeps the anchors of large windows, so that ranks can be read from the ledger at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.ledger.ledger import Ledger
from gateway.ledger.standings import anchors
from policies.ranking import BoardPlace, Ranking


class Anchoring:
    """Tends the anchors of one board's windows."""

    def __init__(self, ledger: Ledger, ranking: Ranking) -> None:
        self._ledger = ledger
        self._ranking = ranking

    async def tend(self, window: str) -> int:
        """Do a bounded piece of work on a window and return its amount, 0 if there is none.

        Raises LedgerUnavailable.
        """
        done = 0
        if await self._ledger.read(anchors.need_tending(self._ranking, window)):
            done = await self._ledger.write(anchors.tend_anchors(self._ranking, window))
        return done + await self._respace(window)

    async def _respace(self, window: str) -> int:
        wide, spare = await self._ledger.read(anchors.spacing_of(self._ranking, window))
        done = 0
        for some_wide, some_spare in _one_by_one(wide[: anchors.SET_AT_ONCE], spare):
            done += await self._ledger.write(anchors.respace(self._ranking, window, some_wide, some_spare))
        return done


def _one_by_one(
    wide: Sequence[BoardPlace], spare: Sequence[BoardPlace]
) -> list[tuple[Sequence[BoardPlace], Sequence[BoardPlace]]]:
    """Return the work of each transaction: a wide gap, or all spare anchors. None delays writers for long."""
    return [*(([place], ()) for place in wide), *([((), spare)] if spare else [])]
