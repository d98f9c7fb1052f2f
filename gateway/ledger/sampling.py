"""What counts without having been verified, and is put up for it: a convicted player's runs, and what came into the top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.schema import is_in, outbox, standings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason, State
from validators.budget import URGENT

KIND: Final = "recheck"
"""The kind of the outbox rows; each has the number of its submission, whose own row went when it was promoted."""

_s, _st = submissions.c, standings.c
_IS_SAMPLED = and_(is_in(State.PROMOTED), _s.reason == Reason.SAMPLED.value)

_OF_PLAYER = Query(
    select(_s.seq, _s.submission_id, _s.board, _s.player).where(
        _IS_SAMPLED, _s.board == bindparam("of_board"), _s.player == bindparam("of_player")
    )
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


class Sampled(NamedTuple):
    """A submission that counts without having been verified."""

    seq: int
    submission_id: str
    board: str
    player: str


def sampled_in_top(board: str, window: str, top: int) -> Operation[list[Sampled]]:
    """What is among the first `top` of a window without having been verified, and is not put up for it yet."""

    async def work(tx: Transaction) -> list[Sampled]:
        return [Sampled(*row) for row in await tx.rows(_IN_TOP, of_board=board, of_window=window, first=top)]

    return work


def put_up(found: Sequence[Sampled], *, now_ms: int) -> Operation[int]:
    """How many of these were put up for verification; what is put up already stays as it is."""

    async def work(tx: Transaction) -> int:
        facts = [each._asdict() | {"due_at_ms": now_ms, "kind": KIND, "priority": URGENT} for each in found]
        return sum([await tx.run(_PUT, **each) for each in facts])

    return work


async def put_up_player(tx: Transaction, board: str, player: str, *, now_ms: int) -> None:
    """Puts up all that counts of a player on a board without having been verified."""
    rows = await tx.rows(_OF_PLAYER, of_board=board, of_player=player)
    if rows:
        await put_up([Sampled(*row) for row in rows], now_ms=now_ms)(tx)
