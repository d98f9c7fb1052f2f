"""Sketches of who played and who improved, by board, kind and slot of time."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import is_in, submissions, trend_slots
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.fields import SortOrder
from policies.vocabulary import State

_t, _s = trend_slots.c, submissions.c

_SLOT = Query(
    select(_t.sketch).where(
        _t.board == bindparam("board"),
        _t.kind == bindparam("kind"),
        _t.span_ms == bindparam("span_ms"),
        _t.begin_ms == bindparam("begin_ms"),
    )
)
_SLOTS = Query(
    select(_t.sketch)
    .where(
        _t.board == bindparam("board"),
        _t.kind == bindparam("kind"),
        _t.span_ms == bindparam("span_ms"),
        _t.begin_ms >= bindparam("since_ms"),
    )
    .order_by(_t.begin_ms)
)
_put = insert(trend_slots)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["board", "kind", "span_ms", "begin_ms"], set_={"sketch": _put.excluded.sketch}
    )
)
_PRUNE = Query(delete(trend_slots).where(_t.begin_ms < bindparam("before_ms")))
_EARLIER = {
    order: Query(
        select(best(_s.score)).where(
            is_in(State.PROMOTED),
            _s.board == bindparam("board"),
            _s.player == bindparam("player"),
            _s.seq < bindparam("before"),
        )
    )
    for order, best in ((SortOrder.DESCENDING, func.max), (SortOrder.ASCENDING, func.min))
}
_EARLIER_HIGHEST, _EARLIER_LOWEST = _EARLIER[SortOrder.DESCENDING], _EARLIER[SortOrder.ASCENDING]


class TrendSlot(NamedTuple):
    """A slot of a board's time: the kind of sketch, the length, and the beginning (Unix ms)."""

    board: str
    kind: str
    span_ms: int
    begin_ms: int


async def sketch_of(tx: Transaction, slot: TrendSlot) -> bytes | None:
    """Return the sketch of a slot, or None."""
    rows = await tx.rows(_SLOT, **slot._asdict())
    return bytes(rows[0][0]) if rows else None


async def put_sketch(tx: Transaction, slot: TrendSlot, sketch: bytes) -> None:
    """Store the sketch of a slot in place of the previous one."""
    await tx.run(_PUT, **slot._asdict(), sketch=sketch)


async def prune(tx: Transaction, *, before_ms: int) -> int:
    """Delete slots that began before `before_ms`, and return how many."""
    return await tx.run(_PRUNE, before_ms=before_ms)


async def best_before(tx: Transaction, board: str, player: str, seq: int, order: SortOrder) -> int | None:
    """Return the best promoted score of a player received before submission `seq`, or None."""
    query = _EARLIER_LOWEST if order is SortOrder.ASCENDING else _EARLIER_HIGHEST
    [[score]] = await tx.rows(query, board=board, player=player, before=seq)
    return None if score is None else int(score)


def sketches_since(board: str, kind: str, span_ms: int, *, since_ms: int) -> Operation[list[bytes]]:
    """Return the sketches of a board's slots that began at `since_ms` or later, oldest first."""

    async def work(tx: Transaction) -> list[bytes]:
        rows = await tx.rows(_SLOTS, board=board, kind=kind, span_ms=span_ms, since_ms=since_ms)
        return [bytes(row[0]) for row in rows]

    return work
