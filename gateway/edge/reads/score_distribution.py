"""Where a score is among all of a window: from the index, or from the ledger where that has it not.

`percentile`: of all entries of a window, the share (in percent) whose score is not better. It is SQL's CUME_DIST from
the last entry up: equal scores have equal percentiles, and the best score has 100. The score at a percentile is the
inverse, PERCENTILE_DISC: the worst score that an entry has and whose percentile is no less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.edge.reads.board_reader import IS_AWAY, SOURCE, BoardReader, note_away
from gateway.index.board_index import BoardIndex, Cut, Entry
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.index.windows.heads import Heads
from gateway.index.windows.sketches import RANK_ERROR, Sketches, missing_changes
from gateway.ledger.index_pages import standings_of
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.distribution import spread_of
from gateway.records import WHOLE_SHARE, Spread, Standing
from policies.errors import IndexNotWhole, IndexUnavailable
from policies.model import RankKind
from policies.ranking import BoardPlace

ESTIMATED: Final = {"Scoregate-Source": "sketch"}
"""Said with what is estimated, by a sketch of all scores."""


class FoundSpread(NamedTuple):
    """A spread, whether it is from the index, the revision of the archive if it is from there, and its stated error.

    `error` is a share of all entries, in percent, by which any position in it may be off; 0 for what is exact.
    """

    spread: Spread
    is_of_index: bool
    revision: int = 0
    error: float = 0.0

    @property
    def headers(self) -> dict[str, str]:
        """What is said of where it is from."""
        if self.error:
            return ESTIMATED
        return {} if self.is_of_index else SOURCE


class Among(NamedTuple):
    """Where an entry is among all: of how many, its percentile, and the way to the next better score.

    `gap` is None for the best score, and where the next one is not known. `error` is what the percentile may be off by.
    """

    total: int
    percentile: float
    gap: int | None
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class SpreadReader:
    """The spreads of one board's windows. Raises LedgerUnavailable."""

    reader: BoardReader
    spreads: ExactDistributions
    heads: Heads
    sketches: Sketches

    async def of(self, window: str, scores: Sequence[int], shares: Sequence[int]) -> FoundSpread:
        """How many entries are better than these scores, and the scores at these shares."""
        if (estimated := await self._estimated(window, scores, shares)) is not None:
            return estimated
        asked = self._exact(window, scores, shares)
        otherwise = spread_of(self._index.ranking, window, scores, shares)
        return FoundSpread(*await self.reader.either(asked, otherwise, ReadKind.HEAVY))

    async def below(self, window: str, player: str) -> tuple[Standing, Among] | None:
        """A player's standing from the ledger, of whom the index keeps no entry, and where it is among all."""
        board = self._index.ranking.policy.board
        found = await self.reader.ledger.read(standings_of(board, {window: [player]}), ReadKind.PAGES)
        if not found or found[0].score is None:
            return None
        spread, _, _, error = await self.of(window, [found[0].score], [])
        return found[0], Among(spread.total, percentile(spread.total, spread.better[0]), None, error)

    async def _exact(self, window: str, scores: Sequence[int], shares: Sequence[int]) -> Spread:
        """The spread of a window that the index has all of. Raises IndexNotWhole for one of which it has the head alone."""
        if self._index.most_entries and (await self.heads.of(window)).below:
            raise IndexNotWhole
        return await self.spreads.of(window, scores, shares)

    async def _estimated(
        self, window: str, scores: Sequence[int], shares: Sequence[int]
    ) -> FoundSpread | None:
        """The spread of a window of which the index keeps the head alone, by its sketch; None if there is no such sketch."""
        if not self._index.most_entries or IS_AWAY.get():
            return None
        try:
            if not (head := await self.heads.of(window)).below:
                return None
            if (kept := await self.sketches.of(window)) is None or not (n := kept.sketch.count):
                return None
        except IndexUnavailable as silence:
            note_away(silence)
            return None
        sketch, total = kept.sketch, head.total
        better = tuple(round(total * (1 - sketch.share(score))) for score in scores)
        at = tuple(sketch.score_at(share / WHOLE_SHARE) for share in shares)
        lacks = missing_changes(kept, version=int(head.version), total=total)
        error = min(100.0, 100 * (RANK_ERROR + lacks / n))
        return FoundSpread(Spread(total, better, at, *sketch.ends), is_of_index=False, error=error)

    @property
    def _index(self) -> BoardIndex:
        return self.reader.index

    async def among(self, window: str, entry: Entry, kind: RankKind) -> tuple[Among, bool]:
        """Where an entry is among all, and whether that is from the index."""
        best_equal = BoardPlace(self._index.ranking.order_from(window, entry.score), "")
        found = await self.reader.page(window, Cut(best_equal, is_behind=False), 1, kind)
        page = found.page
        following = page.entries[-1].score if page.entries else None
        better = page.ahead + len(page.entries)
        return among_all(page.total, better, entry.score, following), found.is_of_index


def among_all(total: int, better: int, score: int, following: int | None) -> Among:
    """Where a score is among `total` entries of which `better` are better, the nearest of them by `following`."""
    return Among(total, percentile(total, better), None if following is None else abs(following - score))


def percentile(total: int, better: int) -> float:
    """The share of entries, in percent, that are not better. An entry that left meanwhile is no longer one of them."""
    return 100 * (total - better) / total if total else 0.0
