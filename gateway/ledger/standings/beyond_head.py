"""Pages of a window's standings below the head that the index stores, and pages of its scores."""

from __future__ import annotations

from sqlalchemy import bindparam, select, tuple_

from gateway.ledger.index_pages import STANDING
from gateway.ledger.schema import standings
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import Standing
from policies.ranking import BoardPlace

_s = standings.c
_AFTER = Query(
    STANDING.where(
        _s.score.is_not(None),
        tuple_(_s.order_value, _s.member)
        > tuple_(
            bindparam("after_order", type_=_s.order_value.type),
            bindparam("after_member", type_=_s.member.type),
        ),
    )
    .order_by(_s.order_value, _s.member)
    .limit(bindparam("count"))
)
_SCORES = Query(
    select(_s.player, _s.score)
    .where(_s.board == bindparam("board"), _s.window == bindparam("window"), _s.player > bindparam("after"))
    .order_by(_s.player)
    .limit(bindparam("count"))
)


def scores_after(
    board: str, window: str, player: str, *, count: int
) -> Operation[list[tuple[str, int | None]]]:
    """Return the next players of a window after one, with their scores; None where nothing counts."""

    async def work(tx: Transaction) -> list[tuple[str, int | None]]:
        rows = await tx.rows(_SCORES, board=board, window=window, after=player, count=count)
        return [(name, score) for name, score in rows]

    return work


def standings_behind(board: str, window: str, place: BoardPlace, *, count: int) -> Operation[list[Standing]]:
    """Return the next standings of a window behind a place, in order."""

    async def work(tx: Transaction) -> list[Standing]:
        page = {"board": board, "window": window, "count": count}
        rows = await tx.rows(_AFTER, **page, after_order=place.order, after_member=place.member)
        return [Standing(*row) for row in rows]

    return work
