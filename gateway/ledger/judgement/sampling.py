"""Rechecks of runs that count unverified: those of convicted players, and those that reach the top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, delete, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.records import OutboxRow
from gateway.ledger.schema import is_in, outbox, standings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
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
        _s.player == bindparam("of_player"),
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
_HAS_CONVICTION = Query(
    select(_s.seq)
    .where(
        _s.player == bindparam("of_player"),
        _s.board == bindparam("of_board"),
        or_(is_in(State.REJECTED), is_in(State.REVOKED)),
        _s.reason != Reason.BANNED.value,
    )
    .limit(1)
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


async def queue_returned(tx: Transaction, returned: Sequence[SampledSubmission], *, now_ms: int) -> None:
    """Queue sampled runs of a player on a board that count again, if the player has a conviction there.

    What took them off the board took them out of the queue.
    """
    if not returned:
        return
    if await tx.rows(_HAS_CONVICTION, of_board=returned[0].board, of_player=returned[0].player):
        await queue_rechecks(returned, now_ms=now_ms)(tx)


async def queue_player(tx: Transaction, convicted: SampledSubmission, *, now_ms: int) -> None:
    """Queue all sampled runs of a convicted player on a board for verification.

    Beyond a slice, a row under the convicted run's number leaves the rest to `recall`.
    """
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
    rows = await tx.rows(_OF_PLAYER, of_board=board, of_player=player, count=SLICE)
    return await queue_rechecks([SampledSubmission(*row) for row in rows], now_ms=now_ms)(tx)
