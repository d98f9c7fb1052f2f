"""Where a player would stand on a rollup if bans that are hidden from the player revoked nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.ledger.standings.across_boards import banned_boards
from gateway.ledger.standings.banned_folds import standing_without_bans
from gateway.ledger.standings.folds import name_of, standing_at
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.standings.reached import within_limits
from gateway.ledger.standings.rollups import fold_shares, is_deleted, rollup_of
from gateway.ledger.standings.slots import read_slot
from gateway.ledger.transaction import Operation, Transaction
from gateway.shared_records import WHOLE_SHARE, Standing
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.rollups import RollupTake
from policies.windows import Window, window_named

BOARDS_LIMIT: Final = 100
"""Most boards of a family that one read folds. Whoever is banned on more sees the rollup that all see."""


class OwnStanding(NamedTuple):
    """A standing without bans, None for none, and the one that everybody sees now; None if they see none.

    It took so many folds, which read so many runs.
    """

    standing: Standing | None
    public: Standing | None = None
    folds: int = 1
    runs: int = 1


def rollup_without_bans(
    rollup: Ranking,
    ranking_of: Callable[[str], Ranking],
    player: str,
    window: Window,
    *,
    hides: Callable[[str], bool],
) -> Operation[OwnStanding]:
    """Fold the player's shares with what bans revoke on boards that `hides` names, if there is such a share.

    Points are those for the player's own rank there; everybody else keeps theirs.
    """
    family = rollup_of(rollup).family

    async def work(tx: Transaction) -> OwnStanding:
        banned = await banned_boards(player, family, after="", count=BOARDS_LIMIT + 1)(tx)
        if len(banned) > BOARDS_LIMIT:
            return OwnStanding(None)
        shares: list[ReachedScore] = []
        runs = 0
        for ranking in map(ranking_of, filter(hides, banned)):
            span = window_named(ranking.policy, window.name)
            fold = await standing_without_bans(ranking, player, span)(tx)
            runs += fold.runs
            if fold.standing and (share := await _share(tx, rollup, ranking, fold.standing)):
                shares.append(share)
        if not shares:
            return OwnStanding(None, folds=len(banned), runs=runs)
        if (stands := await fold_shares(tx, rollup, window.name, player)) is not None:
            shares.append(stands)
        slot = await read_slot(tx, rollup, window.name, player)
        where = (window, player, await name_of(tx, player))
        standing = standing_at(rollup, where, _joined(rollup, shares), slot.seq or 0)
        if slot.score is None or slot.place is None:
            return OwnStanding(standing, None, len(banned), runs)
        order, member = slot.place
        public = replace(standing, score=slot.score, order=order, member=member)
        return OwnStanding(standing, public, len(banned), runs)

    return work


async def _share(tx: Transaction, rollup: Ranking, board: Ranking, standing: Standing) -> ReachedScore | None:
    """Return what a player would have on one board; None for nothing, and if the board is deleted."""
    if await is_deleted(tx, board.policy.board):
        return None
    score: int | None = standing.score
    match rollup_of(rollup).take:
        case RollupTake.COUNT:
            score = 1
        case RollupTake.POINTS:
            score = await _points(tx, rollup, board, standing)
    if score is None:
        return None
    return ReachedScore(score, standing.achieved_at_ms, standing.achieved_seq, standing.submission_id)


async def _points(tx: Transaction, rollup: Ranking, board: Ranking, standing: Standing) -> int | None:
    """Return the points of a standing that nobody else sees; None for none."""
    given, ranked = rollup_of(rollup), RankedWindow(tx, board, standing.window)
    if given.points:
        ahead = await ranked.ahead(BoardPlace(standing.order, standing.member))
        return given.points[ahead] if ahead < len(given.points) else None
    score = standing.score or 0
    better = await ranked.ahead(BoardPlace(board.order_from(standing.window, score), ""))
    total = await ranked.total() + 1
    reached = (each for each in given.percentiles if (total - better) * WHOLE_SHARE >= each.share * total)
    return max((each.points for each in reached), default=None)


def _joined(rollup: Ranking, shares: Sequence[ReachedScore]) -> ReachedScore:
    """Return what shares come to; the score of one that is folded already is what it came to."""
    if rollup_of(rollup).take is RollupTake.BEST:
        return min(shares, key=rollup.merit)
    latest = max(shares, key=lambda share: (share.at_ms, share.seq))
    return latest._replace(score=within_limits(sum(share.score for share in shares)))
