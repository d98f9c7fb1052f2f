"""Points of a rollup brought up to date with the ranks of one board, and what that changes for players."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.ledger.standings.folds import fold_rollup, name_of
from gateway.ledger.standings.rollup_borders import PointsOfPercentiles, move_borders
from gateway.ledger.standings.rollup_points import PointsMove, RollupChange, give_points
from gateway.ledger.standings.rollups import ShareChange, rollup_of
from gateway.ledger.transaction import Transaction
from gateway.shared_records import Standing
from policies.ranking import Ranking
from policies.windows import Window


async def move_points(
    tx: Transaction, rollup: Ranking, board: Ranking, change: RollupChange
) -> tuple[Sequence[PointsMove], bool]:
    """Give and take a slice of the points on a board; return whose changed, and whether nothing is left.

    The caller must fold every move in the same transaction.
    """
    take = rollup_of(rollup)
    if take.percentiles:
        return await move_borders(tx, PointsOfPercentiles(board, rollup, take.percentiles), change)
    return await give_points(tx, change, take.points)


async def fold_points(
    tx: Transaction, rollup: Ranking, move: PointsMove, window: Window, seq: int
) -> Standing | None:
    """Fold changed points into the player's standing under `seq`; return None if it stays as it was."""
    share = ShareChange(move.player, await name_of(tx, move.player), move.before, move.after)
    return await fold_rollup(tx, rollup, share, window, seq)
