"""What counts without having been verified, and is put up for it: a convicted player's runs, and what came into the top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.records import OutboxRow
from gateway.ledger.schema import is_in, outbox, standings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason, State
from validators.verification_priority import URGENT

KIND: Final = "recheck"
"""The kind of the outbox rows; each has the number of its submission, whose own row went when it was promoted."""

RECALL: Final = "recall"
"""The kind of the outbox rows of convictions after which more is still to be put up, under the convicted run's number."""

SLICE: Final = 256
"""Most runs of a player that are put up in one transaction, which holds the writer for some milliseconds."""

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
_put = upsert(outbox)
_PUT = Query(_put.on_conflict_do_nothing(index_elements=["seq"]))
# An audit of the run may lie there, and says nothing any more of a run that was revoked.
_PUT_RECALL = Query(
    _put.on_conflict_do_update(
        index_elements=["seq"],
        set_={each: _put.excluded[each] for each in ("kind", "due_at_ms", "priority", "handed_out")},
    )
)
_RECALLED = Query(delete(outbox).where(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == RECALL))


class SampledSubmission(NamedTuple):
    """A submission, as work is written down for it."""

    seq: int
    submission_id: str
    board: str
    player: str


def sampled_in_top(board: str, window: str, top: int) -> Operation[list[SampledSubmission]]:
    """What is among the first `top` of a window without having been verified, and is not put up for it yet."""

    async def work(tx: Transaction) -> list[SampledSubmission]:
        return [
            SampledSubmission(*row)
            for row in await tx.rows(_IN_TOP, of_board=board, of_window=window, first=top)
        ]

    return work


def put_up(found: Sequence[SampledSubmission], *, now_ms: int) -> Operation[int]:
    """How many of these were put up for verification; what is put up already stays as it is."""

    async def work(tx: Transaction) -> int:
        work = {"due_at_ms": now_ms, "kind": KIND, "priority": URGENT, "handed_out": 0}
        return sum([await tx.run(_PUT, **each._asdict(), **work) for each in found])

    return work


async def put_up_player(tx: Transaction, convicted: SampledSubmission, *, now_ms: int) -> None:
    """Puts up all that counts of a player on a board without having been verified, and is not put up yet.

    Of more than a slice the rest is remembered under the convicted run, in the same transaction, for `recall`.
    """
    if await _put_up_some(tx, convicted.board, convicted.player, now_ms) == SLICE:
        work = {"due_at_ms": now_ms, "kind": RECALL, "priority": 0, "handed_out": 0}
        await tx.run(_PUT_RECALL, **convicted._asdict(), **work)


def recall(row: OutboxRow, *, now_ms: int) -> Operation[int]:
    """How many more of a convicted player's runs were put up: up to a slice. After the last the row is struck off."""

    async def work(tx: Transaction) -> int:
        put = await _put_up_some(tx, row.board, row.player, now_ms)
        if put < SLICE:
            await tx.run(_RECALLED, row_seq=row.seq)
        return put

    return work


async def _put_up_some(tx: Transaction, board: str, player: str, now_ms: int) -> int:
    rows = await tx.rows(_OF_PLAYER, of_board=board, of_player=player, count=SLICE)
    return await put_up([SampledSubmission(*row) for row in rows], now_ms=now_ms)(tx)
