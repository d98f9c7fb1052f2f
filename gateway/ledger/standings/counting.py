"""What one player's submissions come to on a board: added to a standing, or folded from all that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.players.joins import was_joined
from gateway.ledger.schema import is_in, submissions
from gateway.ledger.standings.reached import CountingColumns, select_reached, within_limits
from gateway.ledger.standings.rollups import fold_shares
from gateway.ledger.standings.slots import SlotContent, held_in
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Query, Row, Transaction
from policies.choices import Joins, Operator
from policies.fields import SortOrder
from policies.ranking import Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT, State
from policies.windows import Window

_s = submissions.c


class CountChange(NamedTuple):
    """A submission that begins to count (`difference` 1) or ceases to (-1)."""

    difference: int
    submission_id: str
    seq: int
    achieved_at_ms: int
    score: int
    stats: Mapping[str, int]


PlayerWindow = tuple[Window, str, str]
"""A window, a player, and the player's display name."""


def with_more(
    ranking: Ranking, slot: SlotContent, changes: Sequence[CountChange], *, is_first: bool
) -> ReachedScore | None:
    """Add changes to the standing in a slot; return None if that needs the rest of the history.

    It does if a submission ceases to count, if there is a standing by another rule, or none and these changes
    are not the first, or if a sum reaches SCORE_LIMIT, where it is cut off.
    """
    reached = held_in(ranking, slot) if slot.rule == ranking.rule else None
    is_known = is_first or reached is not None
    if not is_known or any(change.difference < 0 for change in changes):
        return None
    for change in changes:
        reached = _first(ranking, change) if reached is None else _plus(ranking, reached, change)
    assert reached is not None
    ends = (abs(slot.score or 0), abs(reached.score))
    is_held = ranking.policy.operator is Operator.SUM and SCORE_LIMIT in ends
    return None if is_held or abs(reached.score) > SCORE_LIMIT else reached


def with_one_more(ranking: Ranking, slot: SlotContent, change: CountChange) -> ReachedScore:
    """Return a player's standing if one more submission counted, from the slot alone."""
    held = held_in(ranking, slot)
    return _first(ranking, change) if held is None else _plus(ranking, held, change)


def _first(ranking: Ranking, change: CountChange) -> ReachedScore:
    """Return a standing with one submission alone."""
    alone = _alone(ranking, change)
    return alone._replace(score=1) if ranking.policy.operator is Operator.COUNT else alone


def _alone(ranking: Ranking, change: CountChange) -> ReachedScore:
    ties = ranking.ties(change.stats)
    return ReachedScore(change.score, change.achieved_at_ms, change.seq, change.submission_id, ties)


def _plus(ranking: Ranking, reached: ReachedScore, change: CountChange) -> ReachedScore:
    """Return a standing with one more submission."""
    operator, new = ranking.policy.operator, _alone(ranking, change)
    if operator is Operator.BEST:
        return min(reached, new, key=ranking.merit)
    latest = max(reached, new, key=lambda one: (one.at_ms, one.seq))
    if operator is Operator.LATEST:
        return latest
    return latest._replace(score=reached.score + (1 if operator is Operator.COUNT else change.score))


async def fold_reached(tx: Transaction, ranking: Ranking, where: PlayerWindow) -> ReachedScore | None:
    """Fold a player's promoted submissions in a window; None if there are none or the player has not joined.

    A window that is over counts players who were on the board at its end, whoever joins or leaves later.
    """
    window, player, _ = where
    policy = ranking.policy
    if policy.rollup:
        return await fold_shares(tx, ranking, window.name, player)
    if policy.joins is Joins.REQUIRED and not await was_joined(tx, policy.board, player, window.end_ms):
        return None
    span = {"board": policy.board, "player": player, "begin": window.begin_ms, "end": window.end_ms}
    rows = await tx.rows(_counting(policy.operator, policy.order), **span)
    if not rows:
        return None
    if policy.tie_fields and policy.operator is Operator.BEST:
        tied = await tx.rows(_TIED, **span, score=rows[0][0])
        return min((reached_by(ranking, row) for row in tied), key=ranking.merit)
    return reached_by(ranking, rows[0])


def reached_by(ranking: Ranking, row: Row) -> ReachedScore:
    """Return what a row reaches: score, time, sequence number, submission, stats."""
    score, at_ms, seq, submission_id, stats = row
    ties = ranking.ties(stats_from(stats)) if ranking.tie_digits else ""
    return ReachedScore(within_limits(score), at_ms, seq, submission_id, ties)


_IN_SLOT: Final = (
    _s.board == bindparam("board"),
    _s.player == bindparam("player"),
    _s.achieved_at_ms >= bindparam("begin"),
    _s.achieved_at_ms < bindparam("end"),
)
_COUNTING: Final = CountingColumns(_s.score, _s.achieved_at_ms, _s.seq, (_s.submission_id, _s.stats))
_TIED: Final = Query(
    select(_s.score, _s.achieved_at_ms, _s.seq, _s.submission_id, _s.stats).where(
        *_IN_SLOT, is_in(State.PROMOTED), _s.score == bindparam("score")
    )
)


@lru_cache(maxsize=16)
def _counting(operator: Operator, order: SortOrder) -> Query:
    """Return the query for what a player reaches: score, time, sequence number, submission, stats."""
    return Query(select_reached(_COUNTING, operator, order).where(*_IN_SLOT, is_in(State.PROMOTED)))
