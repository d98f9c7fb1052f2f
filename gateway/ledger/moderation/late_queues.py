"""Queues that are late: the boards that have a case older than the policy's `moderation.target_s`.

Each case has a deadline beside it from when its harm is assessed. A steward notes the deadlines that passed.
The first of a board makes its queue late; the transaction that ends its last such case ends that, too.
So nothing is told twice, and nobody looks at each board.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import Int64, case_targets, cases, late_queues
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of

SHOWN: Final = 100
"""Most late queues that one read returns."""

WALK: Final = 1_000
"""Most late queues that it looks at."""

_c, _t, _l = cases.c, case_targets.c, late_queues.c

_IS_AHEAD: Final = _t.is_late == literal_column("0")  # a bound number would not use the index
_IS_LATE: Final = _t.is_late == literal_column("1")

_SET = Query(
    insert(case_targets)
    .from_select(
        ["submission_id", "board", "late_at_ms", "is_late"],
        select(
            _c.submission_id,
            _c.board,
            _c.opened_at_ms + bindparam("target_ms", type_=Int64),
            literal_column("0"),
        ).where(_c.submission_id == bindparam("submission"), _c.kind != literal_column("'check'")),
    )
    .on_conflict_do_nothing()
)
_DUE = Query(
    select(_t.submission_id, _t.board, _t.late_at_ms, _c.opened_at_ms, _c.waits_until_ms)
    .select_from(case_targets.join(cases, _c.submission_id == _t.submission_id))
    .where(_IS_AHEAD, _t.late_at_ms <= bindparam("now_ms", type_=Int64))
    .order_by(_t.late_at_ms)
    .limit(bindparam("count"))
)
_NEXT = Query(select(_t.late_at_ms).where(_IS_AHEAD).order_by(_t.late_at_ms).limit(1))
_PUT_OFF = Query(
    update(case_targets)
    .where(_t.submission_id == bindparam("submission"))
    .values(late_at_ms=bindparam("until_ms"))
)
_GO_ON = Query(
    update(case_targets)
    .where(_t.submission_id == bindparam("submission"), _t.late_at_ms == bindparam("put_off_ms"))
    .values(late_at_ms=bindparam("until_ms"))
)
_NOTE = Query(
    update(case_targets)
    .where(_t.submission_id == bindparam("submission"))
    .values(is_late=literal_column("1"))
)
_BEGIN = Query(insert(late_queues).on_conflict_do_nothing())
_TARGET = Query(select(_t.board, _t.is_late).where(_t.submission_id == bindparam("submission")))
_FORGET = Query(delete(case_targets).where(_t.submission_id == bindparam("submission")))
_ANY_LATE = Query(select(_t.submission_id).where(_IS_LATE, _t.board == bindparam("board")).limit(1))
_END = Query(delete(late_queues).where(_l.board == bindparam("of_board")))
_LATE = Query(select(_l.board, _l.label, _l.since_ms).order_by(_l.board).limit(bindparam("count")))
_OF_BOARD = Query(select(_l.since_ms).where(_l.board == bindparam("board")))
_COUNT = Query(select(func.count()).select_from(late_queues))


class LateQueue(NamedTuple):
    """A board with a case that is older than it may be, and since when (Unix ms)."""

    board: str
    label: str
    since_ms: int


class LateCase(NamedTuple):
    """The case that made a queue late: when it was opened, and when it should have been decided (Unix ms)."""

    submission_id: str
    board: str
    late_at_ms: int
    opened_at_ms: int


async def set_target(tx: Transaction, submission_id: str, target_ms: int) -> None:
    """Give a case its deadline, by the age (ms) that it may grow; one that has a deadline keeps it."""
    await tx.run(_SET, submission=submission_id, target_ms=target_ms)


async def go_on(tx: Transaction, submission_id: str, *, put_off_ms: int, now_ms: int) -> None:
    """Have the deadline of a case pass now that was put off to the end of a question, which is over."""
    await tx.run(_GO_ON, submission=submission_id, put_off_ms=put_off_ms, until_ms=now_ms)


async def end_target(tx: Transaction, submission_id: str) -> None:
    """Forget the deadline of a case that is closed; after the last late one the queue is late no more."""
    for board, is_late in await tx.rows(_TARGET, submission=submission_id):
        await tx.run(_FORGET, submission=submission_id)
        if is_late and not await tx.rows(_ANY_LATE, board=board):
            await tx.run(_END, of_board=board)


async def note_late(tx: Transaction, *, now_ms: int, count: int) -> tuple[int, list[LateCase]]:
    """Note deadlines that have passed; return how many, and the cases that made a queue late.

    A case whose player is asked something is put off until the question is over.
    """
    due, began = await tx.rows(_DUE, now_ms=now_ms, count=count), list[LateCase]()
    for submission_id, board, late_at_ms, opened_at_ms, waits_until_ms in due:
        if waits_until_ms > now_ms:
            await tx.run(_PUT_OFF, submission=submission_id, until_ms=waits_until_ms)
            continue
        await tx.run(_NOTE, submission=submission_id)
        if await tx.run(_BEGIN, board=board, label=label_of(board), since_ms=late_at_ms):
            began.append(LateCase(submission_id, board, late_at_ms, opened_at_ms))
    return len(due), began


async def next_deadline(tx: Transaction) -> int | None:
    """Return when the next deadline passes, None if none is ahead."""
    rows = await tx.rows(_NEXT)
    return int(rows[0][0]) if rows else None


def late_queues_of(scopes: frozenset[str], board: str | None) -> Operation[list[LateQueue]]:
    """Return late queues that scopes reach, of one board or family alone if it is named; SHOWN at most."""

    async def work(tx: Transaction) -> list[LateQueue]:
        rows = [LateQueue(*row) for row in await tx.rows(_LATE, count=WALK)]
        return [
            each
            for each in rows
            if not scopes.isdisjoint({"*", each.board, each.label})
            and board in (None, each.board, each.label)
        ][:SHOWN]

    return work


async def is_late(tx: Transaction, board: str) -> bool:
    """Return whether the queue of a board is late."""
    return bool(await tx.rows(_OF_BOARD, board=board))


async def count_late(tx: Transaction) -> int:
    """Return how many queues are late."""
    [[count]] = await tx.rows(_COUNT)
    return int(count)
