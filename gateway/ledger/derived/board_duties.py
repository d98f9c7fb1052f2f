"""What is next due on each board. A board without work has no row.

The steward notes what becomes due as it follows the log (`gateway.steward.agenda`), takes what is due, and
strikes it once it is done. When something is due is a hint: the duty decides by the board's own rules, and
puts it off if it came too early.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import Integer, bindparam, case, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import Insert, insert

from gateway.ledger.schema import Int64, Text, board_duties, standings
from gateway.ledger.standings import anchors
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.lanes import ALL_LANES, LANES, lane_of

WHOLE_BOARD: Final = ""
"""The window of a duty that concerns a board and none of its windows."""

_d = board_duties.c
_KEY: Final = ("duty", "board", "window")


def _put(rows: Insert) -> Insert:
    """Return the statement that puts rows, or merges them with those that are there."""
    later, earlier = rows.excluded.last_seq, rows.excluded.due_at_ms
    return rows.on_conflict_do_update(
        index_elements=_KEY,
        set_={
            "due_at_ms": case((earlier < _d.due_at_ms, earlier), else_=_d.due_at_ms),
            "last_seq": case((later > _d.last_seq, later), else_=_d.last_seq),
        },
    )


_given = select(*(bindparam(column.name, type_=column.type) for column in _d))
_PUT = Query(_put(insert(board_duties)))
_PUT_ANCHOR = Query(_put(insert(board_duties).from_select(_d.keys(), _given.where(anchors.MAY_NEED_TENDING))))
_ON_LANES: Final = func.substr(bindparam("lanes", type_=Text), cast(_d.lane + 1, Integer), 1) == "1"
_DUE = Query(
    select(_d.duty, _d.board, _d.window, _d.due_at_ms, _d.first_seq, _d.last_seq)
    .where(
        _d.duty == bindparam("of_duty"),
        _d.due_at_ms <= bindparam("now_ms", type_=Int64),
        _ON_LANES,
    )
    .order_by(_d.due_at_ms, _d.board, _d.window)
    .limit(bindparam("count"))
)
_NEXT = Query(
    select(_d.due_at_ms)
    .where(
        _d.duty == bindparam("of_duty"),
        _d.due_at_ms >= 0,  # so are all, but it has the planner take the index that begins with the next one
        _ON_LANES,
    )
    .order_by(_d.due_at_ms)
    .limit(1)
)
_SAME: Final = (
    *(_d[name] == bindparam(f"of_{name}") for name in _KEY),
    _d.last_seq == bindparam("seen_seq", type_=Int64),
)
_STRIKE = Query(delete(board_duties).where(*_SAME))
_PUT_OFF = Query(update(board_duties).where(*_SAME).values(due_at_ms=bindparam("until_ms", type_=Int64)))
_NEXT_BOARD = Query(
    select(standings.c.board)
    .where(standings.c.board > bindparam("after"), standings.c.board < bindparam("beyond"))
    .order_by(standings.c.board)
    .limit(1)
)


class BoardDuty(StrEnum):
    """A duty that comes due on some boards."""

    ARCHIVE = "archive"
    AUDIT = "audit"
    TOP = "top"
    ANCHOR = "anchor"


class DueDuty(NamedTuple):
    """A duty on a board or one of its windows, and the first and last event that made it due."""

    duty: BoardDuty
    board: str
    window: str
    due_at_ms: int
    first_seq: int
    last_seq: int


async def note(tx: Transaction, duties: Iterable[DueDuty]) -> None:
    """Note what becomes due, inside a transaction. The earlier time and the later event count.

    A look at the anchors of a window that is too small to need any is not noted.
    """
    rows = [{**row._asdict(), "lane": lane_of(row.board)} for row in duties]
    await tx.run_each(_PUT, [row for row in rows if row["duty"] is not BoardDuty.ANCHOR])
    looks = [{**row, "skipped": anchors.LEAST} for row in rows if row["duty"] is BoardDuty.ANCHOR]
    await tx.run_each(_PUT_ANCHOR, looks)


def noted(duties: Sequence[DueDuty]) -> Operation[None]:
    """Note what becomes due."""

    async def work(tx: Transaction) -> None:
        await note(tx, duties)

    return work


def due(
    duty: BoardDuty, *, now_ms: int, count: int, lanes: Collection[int] = ALL_LANES
) -> Operation[list[DueDuty]]:
    """Return what is due of a duty on the boards of some lanes, the longest due first."""

    async def work(tx: Transaction) -> list[DueDuty]:
        of = {"of_duty": duty.value, "lanes": _marks(lanes)}
        rows = await tx.rows(_DUE, **of, now_ms=now_ms, count=count)
        return [DueDuty(BoardDuty(name), *facts) for name, *facts in rows]

    return work


def next_due(duty: BoardDuty, *, lanes: Collection[int] = ALL_LANES) -> Operation[int | None]:
    """Return when the first board of some lanes is due for a duty, None if none will be."""

    async def work(tx: Transaction) -> int | None:
        rows = await tx.rows(_NEXT, of_duty=duty.value, lanes=_marks(lanes))
        return int(rows[0][0]) if rows else None

    return work


def _marks(lanes: Collection[int]) -> str:
    return "".join("01"[lane in lanes] for lane in range(LANES))


def strike(duties: Sequence[DueDuty]) -> Operation[int]:
    """Strike duties that are done and return how many: those that no event has made due again since."""

    async def work(tx: Transaction) -> int:
        return sum([await tx.run(_STRIKE, **_seen(row)) for row in duties])

    return work


def put_off(duties: Sequence[DueDuty], *, until_ms: int) -> Operation[int]:
    """Let duties come due later and return how many: those that no event has made due again since."""

    async def work(tx: Transaction) -> int:
        return sum([await tx.run(_PUT_OFF, until_ms=until_ms, **_seen(row)) for row in duties])

    return work


def boards_with_standings(after: str, beyond: str, *, count: int) -> Operation[list[str]]:
    """Return the next boards with standings in (`after`, `beyond`), in order; each costs one look-up."""

    async def work(tx: Transaction) -> list[str]:
        boards: list[str] = []
        while len(boards) < count:
            rows = await tx.rows(_NEXT_BOARD, after=boards[-1] if boards else after, beyond=beyond)
            if not rows:
                break
            boards.append(rows[0][0])
        return boards

    return work


def _seen(row: DueDuty) -> dict[str, object]:
    return {
        "of_duty": row.duty.value, "of_board": row.board, "of_window": row.window, "seen_seq": row.last_seq
    }  # fmt: skip
