"""Moves that writers of standings note, and the end of a window's anchors, in the transaction of each change.

`gateway.ledger.standings.anchors` says what they keep true.
"""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import anchored_windows, rank_anchors, rank_moves, standings
from gateway.ledger.standings.ranks import ENTRIES, GROUPS, anchor_rule, bind, bound, in_window, place_of
from gateway.ledger.transaction import Query, Transaction
from policies.ranking import BoardPlace, Ranking

_put_move = insert(rank_moves)
_PUT_MOVE = Query(
    _put_move.on_conflict_do_update(
        index_elements=["board", "window", "series", "order_value", "member"],
        set_={"delta": rank_moves.c.delta + _put_move.excluded.delta},
    )
)
_OTHERS = Query(
    select(standings.c.player)
    .where(
        *in_window(standings),
        standings.c.score.is_not(None),
        place_of(standings) >= bound("begin"),
        place_of(standings) < bound("end"),
        standings.c.player != bindparam("player"),
    )
    .limit(1)
)
_DROPS = tuple(
    Query(delete(table).where(*in_window(table))) for table in (rank_anchors, rank_moves, anchored_windows)
)


async def note_move(
    tx: Transaction,
    ranking: Ranking,
    slot: tuple[str, str],
    was: BoardPlace | None,
    now: BoardPlace | None,
    rule: str | None,
) -> None:
    """Note that the standing of a slot, (window, player), is about to move between places (None: nowhere).

    `rule` is that of the window's anchors, None if it has none.
    """
    window, _ = slot
    if rule is None or was == now:
        return
    if rule != anchor_rule(ranking):
        await drop_anchors(tx, ranking.policy.board, window)
        return
    await _note(tx, ranking, window, ENTRIES, was, now)
    if ranking.keeps_groups:
        left, joined = (place and ranking.group_begin(window, place) for place in (was, now))
        if left != joined:
            left, joined = [
                None if begin is None or await _has_others(tx, ranking, slot, begin) else begin
                for begin in (left, joined)
            ]
            await _note(tx, ranking, window, GROUPS, left, joined)


async def drop_anchors(tx: Transaction, board: str, window: str) -> None:
    """Remove a window's anchors and moves; it is counted without them until the steward sets new ones."""
    for query in _DROPS:
        await tx.run(query, board=board, window=window)


async def _note(
    tx: Transaction,
    ranking: Ranking,
    window: str,
    series: int,
    was: BoardPlace | None,
    now: BoardPlace | None,
) -> None:
    for place, delta in ((was, -1), (now, 1)):
        if place is not None:
            await tx.run(
                _PUT_MOVE,
                board=ranking.policy.board,
                window=window,
                series=series,
                order_value=place.order,
                member=place.member,
                delta=delta,
            )


async def _has_others(tx: Transaction, ranking: Ranking, slot: tuple[str, str], begin: BoardPlace) -> bool:
    """Return whether the group that begins there has other players than this one."""
    window, player = slot
    span = bind(begin=begin, end=ranking.group_end(window, begin))
    return bool(await tx.rows(_OTHERS, board=ranking.policy.board, window=window, player=player, **span))
