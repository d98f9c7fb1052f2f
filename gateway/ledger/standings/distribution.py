"""Score distributions from SQL alone: the same numbers as from the index, each by a bounded count."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import ScoreDistribution, position_at
from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking


def distribution_of(
    ranking: Ranking, window: str, scores: Sequence[int], shares: Sequence[int]
) -> Operation[ScoreDistribution]:
    """Return how many of a window's entries beat each score, and the score at each share."""

    async def work(tx: Transaction) -> ScoreDistribution:
        ranked = RankedWindow(tx, ranking, window)
        total = await ranked.total()
        places = [BoardPlace(ranking.order_from(window, score), "") for score in scores]
        better = tuple([await ranked.ahead(place) for place in places])
        if not total:
            return ScoreDistribution(0, better, (), None, None)
        positions = [*(position_at(total, share) for share in shares), 0, total - 1]
        *at, best, worst = [await _score_at(ranked, position) for position in positions]
        return ScoreDistribution(total, better, tuple(at), best, worst)

    return work


async def _score_at(ranked: RankedWindow, position: int) -> int:
    """Return the score at a position (from 0) that has an entry."""
    [row] = (await ranked.page(position, 1, RankKind.UNIQUE)).rows
    return ranked.ranking.score_at(ranked.window, row[1])
