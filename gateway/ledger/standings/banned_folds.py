"""Folds of what only bans revoke of a player, at a cost that hardly depends on how many runs that are."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, func, select, text

from gateway.ledger.players.joins import was_joined
from gateway.ledger.schema import BANNED, submissions
from gateway.ledger.standings.counting import reached_by
from gateway.ledger.standings.folds import name_of, standing_at
from gateway.ledger.standings.reached import within_limits
from gateway.ledger.standings.slots import read_slot
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import Standing
from policies.choices import Joins, Operator, WindowKind
from policies.fields import SortOrder
from policies.ranking import Ranking, ReachedScore
from policies.windows import Window

RUNS_LIMIT: Final = 100_000
"""Most runs of a window that one fold reads. Whoever has more there sees the board that all see."""

TIED_LIMIT: Final = 1_000
"""Most runs with the best score whose tie fields are compared, the first ones: each is read whole."""

_s = submissions.c
_OF_PLAYER: Final = (_s.board == bindparam("board"), _s.player == bindparam("player"), text(BANNED))
_IN_SLOT: Final = (
    *_OF_PLAYER,
    _s.achieved_at_ms >= bindparam("begin"),
    _s.achieved_at_ms < bindparam("end"),
)
_FACTS: Final = (_s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats)

_scores = select(_s.score).where(*_IN_SLOT).limit(bindparam("most")).subquery()
_TOTALS = Query(select(func.count(), func.min(_scores.c.score), func.max(_scores.c.score)))
_SUM = Query(select(func.count(), func.sum(_scores.c.score)))
"""Only for boards that sum: on others a thousand scores may come to more than SQLite can sum."""
_LATEST = Query(select(*_FACTS).where(*_IN_SLOT).order_by(_s.achieved_at_ms.desc(), _s.seq.desc()).limit(1))
_BEST_OF_ALL: Final = {
    SortOrder.ASCENDING: Query(select(_s.score).where(*_OF_PLAYER).order_by(_s.score).limit(1)),
    SortOrder.DESCENDING: Query(select(_s.score).where(*_OF_PLAYER).order_by(_s.score.desc()).limit(1)),
}
_TIED = Query(
    select(*_FACTS)
    .where(*_IN_SLOT, _s.score == bindparam("score"))
    .order_by(_s.achieved_at_ms, _s.seq)
    .limit(bindparam("most"))
)


class FoldWithoutBans(NamedTuple):
    """A standing that only bans take away, None for none, and how many runs were read to know that."""

    standing: Standing | None
    runs: int


_NOTHING: Final = FoldWithoutBans(None, 0)


class _BannedRuns(NamedTuple):
    """The runs of a player in a window, as statements bind them."""

    ranking: Ranking
    window: Window
    player: str

    @property
    def bound(self) -> dict[str, Any]:
        begin, end = self.window.begin_ms, self.window.end_ms
        return {"board": self.ranking.policy.board, "player": self.player, "begin": begin, "end": end}


def standing_without_bans(ranking: Ranking, player: str, window: Window) -> Operation[FoldWithoutBans]:
    """Fold what only bans revoke of a player in a window, if anything, unless the player stands there.

    No standing on rollups, which `own_rollups` folds, and of more runs than RUNS_LIMIT.
    """
    runs = _BannedRuns(ranking, window, player)

    async def work(tx: Transaction) -> FoldWithoutBans:
        slot = await read_slot(tx, ranking, window.name, player)
        policy = ranking.policy
        if slot.score is not None or policy.rollup:
            return _NOTHING
        if policy.joins is Joins.REQUIRED and not await was_joined(tx, policy.board, player, window.end_ms):
            return _NOTHING
        reached, count = await (_best if policy.operator is Operator.BEST else _latest)(tx, runs)
        if reached is None:
            return FoldWithoutBans(None, count)
        where = (window, player, await name_of(tx, player))
        return FoldWithoutBans(standing_at(ranking, where, reached, slot.seq or 0), count)

    return work


async def _best(tx: Transaction, runs: _BannedRuns) -> tuple[ReachedScore | None, int]:
    """Return the best run and how many were read: for all time none but those that are tied for it."""
    policy = runs.ranking.policy
    if runs.window.kind is WindowKind.ALLTIME:
        rows = await tx.rows(_BEST_OF_ALL[policy.order], board=policy.board, player=runs.player)
        count, best = len(rows), rows[0][0] if rows else None
    else:
        [(count, lowest, highest)] = await tx.rows(_TOTALS, **runs.bound, most=RUNS_LIMIT + 1)
        best = lowest if policy.order is SortOrder.ASCENDING else highest
    if best is None or count > RUNS_LIMIT:
        return None, count
    most = TIED_LIMIT if policy.tie_fields else 1
    tied = await tx.rows(_TIED, **runs.bound, score=best, most=most)
    return min((reached_by(runs.ranking, row) for row in tied), key=runs.ranking.merit), count + len(tied)


async def _latest(tx: Transaction, runs: _BannedRuns) -> tuple[ReachedScore | None, int]:
    """Return the latest run, with the sum or number of all on boards that count so, and how many it read."""
    rows, operator = await tx.rows(_LATEST, **runs.bound), runs.ranking.policy.operator
    if not rows:
        return None, 0
    latest = reached_by(runs.ranking, rows[0])
    if operator is Operator.LATEST:
        return latest, 1
    query, at = (_TOTALS, 0) if operator is Operator.COUNT else (_SUM, 1)
    [totals] = await tx.rows(query, **runs.bound, most=RUNS_LIMIT + 1)
    if totals[0] > RUNS_LIMIT:
        return None, totals[0]
    return latest._replace(score=within_limits(totals[at])), totals[0]
