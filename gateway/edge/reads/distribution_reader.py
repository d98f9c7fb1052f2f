"""Reads score distributions, and the position of a score, from the index, its sketches or the ledger.

`percentile` is the share, in percent, of a window's entries whose score is not better. It is SQL's CUME_DIST
from the last entry up: equal scores have equal percentiles, and the best score has 100. The score at a
percentile is the inverse, PERCENTILE_DISC: the worst score of any entry whose percentile is no less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.edge.reads.board_reader import IS_AWAY, SOURCE, BoardReader, note_away
from gateway.edge.reads.own_reader import OwnReader
from gateway.index.board_index import BoardIndex, Cut, Entry
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.index.windows.heads import Heads
from gateway.index.windows.sketches import Sketches, missing_changes, rank_error
from gateway.ledger.index_pages import standings_of
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.distribution import distribution_of
from gateway.shared_records import WHOLE_SHARE, ScoreDistribution, Standing
from policies.choices import RankKind
from policies.errors import IndexNotWhole, IndexUnavailable
from policies.ranking import BoardPlace

ESTIMATED: Final = {"Scoregate-Source": "sketch"}
"""The header field of an answer that a sketch of all scores estimates."""


class SourcedDistribution(NamedTuple):
    """A score distribution, and where it is from: the index, or a revision of the archive, or neither.

    `error` bounds, in percent of all entries, how far off any position may be; 0 means exact.
    """

    distribution: ScoreDistribution
    is_from_index: bool
    revision: int = 0
    error: float = 0.0

    @property
    def headers(self) -> dict[str, str]:
        """Return the header fields that name the source."""
        if self.error:
            return ESTIMATED
        return {} if self.is_from_index else SOURCE


class RelativePosition(NamedTuple):
    """An entry's position among `total` entries: its percentile, and its gap to the next better score.

    `gap` is None for the best score, and where the next one is unknown. `error` bounds how far off the
    percentile may be.
    """

    total: int
    percentile: float
    gap: int | None
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class DistributionReader:
    """Reads the score distributions of one board's windows. Every read raises LedgerUnavailable."""

    reader: BoardReader
    distributions: ExactDistributions
    heads: Heads
    sketches: Sketches

    async def of(self, window: str, scores: Sequence[int], shares: Sequence[int]) -> SourcedDistribution:
        """Return how many entries beat each of these scores, and the score at each of these shares."""
        sourced = await self._of_everybody(window, scores, shares)
        if not isinstance(self.reader, OwnReader):
            return sourced
        own = await self.reader.distribution(window, scores, shares, sourced.distribution)
        return sourced._replace(distribution=own)

    async def _of_everybody(
        self, window: str, scores: Sequence[int], shares: Sequence[int]
    ) -> SourcedDistribution:
        if (estimated := await self._estimated(window, scores, shares)) is not None:
            return estimated
        indexed = self._exact(window, scores, shares)
        from_ledger = distribution_of(self._index.ranking, window, scores, shares)
        return SourcedDistribution(*await self.reader.either(indexed, from_ledger, ReadKind.HEAVY))

    async def below_head(self, window: str, player: str) -> tuple[Standing | Entry, RelativePosition] | None:
        """Return the standing and position of a player below the index's head; None without one."""
        standing = await self._standing_below(window, player)
        if standing is None or standing.score is None:
            return None
        distribution, _, _, error = await self.of(window, [standing.score], [])
        share = percentile(distribution.total, distribution.better[0])
        return standing, RelativePosition(distribution.total, share, None, error)

    async def _standing_below(self, window: str, player: str) -> Standing | Entry | None:
        if isinstance(self.reader, OwnReader) and self.reader.own.player == player:
            return self.reader.own
        board = self._index.ranking.policy.board
        standings = await self.reader.ledger.read(standings_of(board, {window: [player]}), ReadKind.PAGES)
        return standings[0] if standings else None

    async def position_of(self, window: str, entry: Entry, kind: RankKind) -> tuple[RelativePosition, bool]:
        """Return an entry's position among all, and whether the index gave it."""
        best_equal = BoardPlace(self._index.ranking.order_from(window, entry.score), "")
        page, is_from_index = await self.reader.page(window, Cut(best_equal, is_behind=False), 1, kind)
        next_score = page.entries[-1].score if page.entries else None
        better = page.ahead + len(page.entries)
        return relative_position(page.total, better, entry.score, next_score), is_from_index

    async def _exact(self, window: str, scores: Sequence[int], shares: Sequence[int]) -> ScoreDistribution:
        """Return the distribution of a window that is whole in the index.

        Raises IndexNotWhole if only its head is.
        """
        if self._index.most_entries and (await self.heads.of(window)).below:
            raise IndexNotWhole
        return await self.distributions.of(window, scores, shares)

    async def _estimated(
        self, window: str, scores: Sequence[int], shares: Sequence[int]
    ) -> SourcedDistribution | None:
        """Estimate the distribution of a window of which the index has the head; None without a sketch."""
        if not self._index.most_entries or IS_AWAY.get():
            return None
        try:
            if not (head := await self.heads.of(window)).below:
                return None
            if (stored := await self.sketches.of(window)) is None or not (n := stored.sketch.count):
                return None
        except IndexUnavailable as error:
            note_away(error)
            return None
        sketch, total = stored.sketch, head.total
        better = tuple(round(total * (1 - sketch.share(score))) for score in scores)
        at = tuple(sketch.score_at(share / WHOLE_SHARE) for share in shares)
        # The sketch is built now and then: entries that came or left since then add to its own error.
        missing = missing_changes(stored, version=int(head.version), total=total)
        error_percent = min(100.0, 100 * (rank_error() + missing / n))
        distribution = ScoreDistribution(total, better, at, *sketch.ends)
        return SourcedDistribution(distribution, is_from_index=False, error=error_percent)

    @property
    def _index(self) -> BoardIndex:
        return self.reader.index


def relative_position(total: int, better: int, score: int, next_score: int | None) -> RelativePosition:
    """Return the position of a score among `total` entries.

    `better` of them beat it; the nearest has `next_score`.
    """
    gap = None if next_score is None else abs(next_score - score)
    return RelativePosition(total, percentile(total, better), gap)


def percentile(total: int, better: int) -> float:
    """Return the share of entries, in percent, that are not better; 0 if all entries left meanwhile."""
    return 100 * (total - better) / total if total else 0.0
