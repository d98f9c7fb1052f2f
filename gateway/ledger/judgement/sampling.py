"""Rechecks of runs that count unverified: those of convicted players, and those that reach the top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, delete, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.records import OutboxRow
from gateway.ledger.schema import is_in, outbox, standings, submissions
from gateway.ledger.transaction import OneOf, Operation, Query, Transaction
from policies.vocabulary import Reason, State
from validators.verification_priority import URGENT

KIND: Final = "recheck"
"""The kind of the outbox rows.

Each has the number of its submission, whose own row went when it was promoted.
"""

RECALL: Final = "recall"
"""The kind of the outbox rows of convicted runs whose players have more runs to queue."""

SLICE: Final = 256
"""Most runs of a player that one transaction queues. It holds the writer for some milliseconds."""

_s, _st = submissions.c, standings.c
_IS_SAMPLED = and_(is_in(State.PROMOTED), _s.reason == Reason.SAMPLED.value)

_OF_PLAYER = Query(
    select(_s.seq, _s.submission_id, _s.board, _s.player)
    .outerjoin_from(submissions, outbox, outbox.c.seq == _s.seq)
    .where(
        _IS_SAMPLED,
        _s.board == bindparam("of_board"),
        OneOf(_s.player, "of_players"),
        outbox.c.seq.is_(None),
    )
    .limit(bindparam("count"))
)
_top = (
    select(_st.submission_id)
    .where(_st.board == bindparam("of_board"), _st.window == bindparam("of_window"), _st.score.is_not(None))
    .order_by(_st.order_value, _st.member)
    .limit(bindparam("first"))
    .subquery()
)
_IN_TOP = Query(
    select(_s.seq, _s.submission_id, _s.board, _s.player)
    .select_from(_top.join(submissions, _s.submission_id == _top.c.submission_id))
    .outerjoin(outbox, outbox.c.seq == _s.seq)
    .where(_IS_SAMPLED, outbox.c.seq.is_(None))
)
_CONVICTED = Query(
    select(_s.player)
    .distinct()
    .where(
        OneOf(_s.player, "of_players"),
        _s.board == bindparam("of_board"),
        or_(is_in(State.REJECTED), is_in(State.REVOKED)),
        _s.reason != Reason.BANNED.value,
    )
)
_put = upsert(outbox)
_PUT = Query(_put.on_conflict_do_nothing(index_elements=["seq"]))
# It may replace an audit of the run, which is moot once the run is revoked.
_PUT_RECALL = Query(
    _put.on_conflict_do_update(
        index_elements=["seq"],
        set_={name: _put.excluded[name] for name in ("kind", "due_at_ms", "priority", "handed_out")},
    )
)
_RECALLED = Query(delete(outbox).where(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == RECALL))


class SampledSubmission(NamedTuple):
    """A sampled submission, with the columns that its outbox row takes."""

    seq: int
    submission_id: str
    board: str
    player: str


def sampled_in_top(board: str, window: str, top: int) -> Operation[list[SampledSubmission]]:
    """Return sampled submissions among the first `top` of a window that are not queued for verification."""

    async def work(tx: Transaction) -> list[SampledSubmission]:
        return [
            SampledSubmission(*row)
            for row in await tx.rows(_IN_TOP, of_board=board, of_window=window, first=top)
        ]

    return work


def queue_rechecks(sampled: Sequence[SampledSubmission], *, now_ms: int) -> Operation[int]:
    """Queue submissions for verification, and return how many are new in the queue."""

    async def work(tx: Transaction) -> int:
        work = {"due_at_ms": now_ms, "kind": KIND, "priority": URGENT, "handed_out": 0}
        return sum([await tx.run(_PUT, **submission._asdict(), **work) for submission in sampled])

    return work


class DatedRun(NamedTuple):
    """A run on which was decided, and when (Unix ms)."""

    run: SampledSubmission
    at_ms: int


async def queue_returned(tx: Transaction, board: str, returned: Sequence[DatedRun]) -> None:
    """Queue sampled runs on a board that count again, of players who have a conviction there.

    What took them off the board took them out of the queue.
    """
    if not returned:
        return
    players = sorted({each.run.player for each in returned})
    convicted = {row[0] for row in await tx.rows(_CONVICTED, of_board=board, of_players=players)}
    for run, at_ms in returned:
        if run.player in convicted:
            await queue_rechecks([run], now_ms=at_ms)(tx)


async def queue_players(tx: Transaction, board: str, convicted: Sequence[DatedRun]) -> None:
    """Queue all sampled runs of players on a board for verification who are convicted of these, in order.

    Beyond a slice, rows under the numbers of the convicted runs leave the rest to `recall`.
    """
    first = {each.run.player: each.at_ms for each in reversed(convicted)}
    if not first:
        return
    rows = await tx.rows(_OF_PLAYER, of_board=board, of_players=sorted(first), count=SLICE)
    if len(rows) < SLICE:
        for run in (SampledSubmission(*row) for row in rows):
            await queue_rechecks([run], now_ms=first[run.player])(tx)
        return
    for run, at_ms in convicted:
        await _queue_player(tx, run, now_ms=at_ms)


async def _queue_player(tx: Transaction, convicted: SampledSubmission, *, now_ms: int) -> None:
    if await _queue_slice(tx, convicted.board, convicted.player, now_ms) == SLICE:
        work = {"due_at_ms": now_ms, "kind": RECALL, "priority": 0, "handed_out": 0}
        await tx.run(_PUT_RECALL, **convicted._asdict(), **work)


def recall(row: OutboxRow, *, now_ms: int) -> Operation[int]:
    """Queue up to a slice more of a convicted player's runs, and return how many.

    The last slice deletes the row.
    """

    async def work(tx: Transaction) -> int:
        count = await _queue_slice(tx, row.board, row.player, now_ms)
        if count < SLICE:
            await tx.run(_RECALLED, row_seq=row.seq)
        return count

    return work


async def _queue_slice(tx: Transaction, board: str, player: str, now_ms: int) -> int:
    rows = await tx.rows(_OF_PLAYER, of_board=board, of_players=[player], count=SLICE)
    return await queue_rechecks([SampledSubmission(*row) for row in rows], now_ms=now_ms)(tx)
