"""Keeps the anchors of large windows, so that ranks can be read from the ledger at a bounded cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.ledger.ledger import Ledger
from gateway.ledger.standings import anchors
from policies.ranking import BoardPlace, Ranking


class Anchoring:
    """Tends the anchors of every window that has some, and finds windows that have grown to need them."""

    def __init__(self, ledger: Ledger, rankings: Iterable[Ranking]) -> None:
        self._ledger = ledger
        self._boards = [_BoardAnchors(ledger, ranking) for ranking in rankings]

    async def step(self) -> int:
        """Do a bounded piece of work on each board and return its amount. Raises LedgerUnavailable."""
        return sum([await board.step() for board in self._boards])


class _BoardAnchors:
    """The anchors of one board. Windows without anchors are examined in turn, one per round."""

    def __init__(self, ledger: Ledger, ranking: Ranking) -> None:
        self._ledger = ledger
        self._ranking = ranking
        self._examined = ""
        # Anchored windows with even spacing since their moves were last folded: only a fold changes that.
        self._spaced: set[str] = set()

    async def step(self) -> int:
        anchored = await self._ledger.read(anchors.anchored(self._ranking.policy.board))
        following = await self._ledger.read(anchors.next_window(self._ranking.policy.board, self._examined))
        self._examined = following or ""
        windows = dict.fromkeys([*anchored, *([following] if following else [])])
        return sum([await self._tend(window) for window in windows])

    async def _tend(self, window: str) -> int:
        done = 0
        if await self._ledger.read(anchors.need_tending(self._ranking, window)):
            done = await self._ledger.write(anchors.tend_anchors(self._ranking, window))
            self._spaced.discard(window)
        return done if window in self._spaced else done + await self._respace(window)

    async def _respace(self, window: str) -> int:
        wide, spare = await self._ledger.read(anchors.spacing_of(self._ranking, window))
        done = 0
        for some_wide, some_spare in _one_by_one(wide[: anchors.SET_AT_ONCE], spare):
            done += await self._ledger.write(anchors.respace(self._ranking, window, some_wide, some_spare))
        if not done:
            self._spaced.add(window)
        return done


def _one_by_one(
    wide: Sequence[BoardPlace], spare: Sequence[BoardPlace]
) -> list[tuple[Sequence[BoardPlace], Sequence[BoardPlace]]]:
    """Return the work of each transaction: a wide gap, or all spare anchors. None delays writers for long."""
    return [*(([place], ()) for place in wide), *([((), spare)] if spare else [])]
