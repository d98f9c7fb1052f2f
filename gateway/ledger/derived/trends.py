"""Sketches of who played and who improved, by board, kind and slot of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, bindparam, delete, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import events, is_in, submissions, trend_slots
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.fields import SortOrder
from policies.vocabulary import State

_t, _s = trend_slots.c, submissions.c

_KEY: Final = (_t.board, _t.kind, _t.span_ms, _t.begin_ms)
_BEGUN: Final = (
    _t.kind == bindparam("kind"),
    _t.span_ms == bindparam("span_ms"),
    _t.begin_ms == bindparam("begin_ms"),
)


def _bound(name: str) -> ColumnElement[Any]:
    """Return a slot that is bound as `<name>_board` and so on."""
    return tuple_(*(bindparam(f"{name}_{column.name}", type_=column.type) for column in _KEY))


_LISTED = Query(select(_t.board, _t.sketch).where(is_listed(_t.board), *_BEGUN))
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
_NEXT: Final = tuple_(*_KEY) > _bound("after")
_LAST_NEXT = Query(select(*_KEY).where(_NEXT).order_by(*_KEY).limit(1).offset(bindparam("skipped")))
_PRUNE = Query(
    delete(trend_slots).where(_NEXT, tuple_(*_KEY) <= _bound("upto"), _t.begin_ms < bindparam("before_ms"))
)
_FORGET = Query(delete(trend_slots))
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
_WAS_PROMOTED = Query(
    select(events.c.seq)
    .where(
        events.c.submission_id == bindparam("submission_id"),
        events.c.to_state == State.PROMOTED.value,
        events.c.seq < bindparam("before"),
    )
    .limit(1)
)
_EARLIER_HIGHEST, _EARLIER_LOWEST = _EARLIER[SortOrder.DESCENDING], _EARLIER[SortOrder.ASCENDING]


class TrendSlot(NamedTuple):
    """A slot of a board's time: the kind of sketch, the length, and the beginning (Unix ms)."""

    board: str
    kind: str
    span_ms: int
    begin_ms: int


BEGINNING: Final = TrendSlot("", "", 0, 0)
_END: Final = TrendSlot(chr(0x10FFFF), "", 0, 0)
"""Before and behind every slot."""


async def sketches_of(tx: Transaction, slots: Iterable[TrendSlot]) -> dict[TrendSlot, bytes]:
    """Return the sketches of those of some slots that have one."""
    boards: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for slot in slots:
        boards[slot[1:]].append(slot.board)
    sketches = {}
    for begun, names in boards.items():
        kind, span_ms, begin_ms = begun
        for board, sketch in await fetch_listed(
            tx, _LISTED, names, kind=kind, span_ms=span_ms, begin_ms=begin_ms
        ):
            sketches[TrendSlot(board, *begun)] = bytes(sketch)
    return sketches


async def put_sketches(tx: Transaction, sketches: Mapping[TrendSlot, bytes]) -> None:
    """Store the sketches of slots in place of the previous ones."""
    await tx.run_each(_PUT, [{**slot._asdict(), "sketch": sketch} for slot, sketch in sketches.items()])


async def prune_next(tx: Transaction, after: TrendSlot, *, before_ms: int, count: int) -> TrendSlot:
    """Delete those of the next `count` slots after one that began before `before_ms`.

    Return the last slot that was looked at, or BEGINNING once all were.
    """
    rows = await tx.rows(_LAST_NEXT, **_bind(after=after), skipped=count - 1)
    upto = TrendSlot(*rows[0]) if rows else None
    await tx.run(_PRUNE, **_bind(after=after, upto=upto or _END), before_ms=before_ms)
    return upto or BEGINNING


def _bind(**slots: TrendSlot) -> dict[str, Any]:
    return {f"{name}_{part}": value for name, slot in slots.items() for part, value in slot._asdict().items()}


async def forget(tx: Transaction) -> None:
    """Delete all slots."""
    await tx.run(_FORGET)


async def best_before(tx: Transaction, board: str, player: str, seq: int, order: SortOrder) -> int | None:
    """Return the best promoted score of a player received before submission `seq`, or None."""
    query = _EARLIER_LOWEST if order is SortOrder.ASCENDING else _EARLIER_HIGHEST
    [[score]] = await tx.rows(query, board=board, player=player, before=seq)
    return None if score is None else int(score)


async def was_promoted(tx: Transaction, submission_id: str, before: int) -> bool:
    """Return whether an event before this one promoted a submission."""
    return bool(await tx.rows(_WAS_PROMOTED, submission_id=submission_id, before=before))


def sketches_since(board: str, kind: str, span_ms: int, *, since_ms: int) -> Operation[list[bytes]]:
    """Return the sketches of a board's slots that began at `since_ms` or later, oldest first."""

    async def work(tx: Transaction) -> list[bytes]:
        rows = await tx.rows(_SLOTS, board=board, kind=kind, span_ms=span_ms, since_ms=since_ms)
        return [bytes(row[0]) for row in rows]

    return work
