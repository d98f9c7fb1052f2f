"""Points of a rollup brought up to date with the ranks of one board, and what that changes for players."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.ledger.standings.folds import fold_rollup, name_of
from gateway.ledger.standings.rollup_borders import (
    Borders,
    PointsOfPercentiles,
    forget_borders,
    move_borders,
    wanted_borders,
)
from gateway.ledger.standings.rollup_points import PointsMove, RollupChange, give_points
from gateway.ledger.standings.rollups import ShareChange, rollup_of
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import Standing
from policies.ranking import Ranking
from policies.windows import Window


def borders_of(rollup: Ranking, slots: Iterable[tuple[Ranking, str]]) -> Operation[list[Borders]]:
    """Return where the borders of a rollup's percentiles belong in windows of boards, in order.

    A rollup that gives no points by percentile has none.
    """
    percentiles = rollup_of(rollup).percentiles

    async def work(tx: Transaction) -> list[Borders]:
        return [
            await wanted_borders(tx, PointsOfPercentiles(board, rollup, percentiles), window)
            if percentiles
            else {}
            for board, window in slots
        ]

    return work


async def move_points(
    tx: Transaction, rollup: Ranking, board: Ranking, change: RollupChange, wanted: Borders
) -> tuple[Sequence[PointsMove], bool]:
    """Give and take a slice of the points on a board; return whose changed, and whether nothing is left.

    `wanted` are its borders by `borders_of`, read after the change. The caller must fold every move in the
    same transaction.
    """
    take = rollup_of(rollup)
    if take.percentiles:
        return await move_borders(tx, PointsOfPercentiles(board, rollup, take.percentiles), change, wanted)
    await forget_borders(tx, change)  # a policy with percentiles, before this one, may have stored some
    return await give_points(tx, change, take.points)


async def fold_points(
    tx: Transaction, rollup: Ranking, move: PointsMove, window: Window, seq: int
) -> Standing | None:
    """Fold changed points into the player's standing under `seq`; return None if it stays as it was."""
    share = ShareChange(move.player, await name_of(tx, move.player), move.before, move.after)
    return await fold_rollup(tx, rollup, share, window, seq)
