"""The position of each consumer in each lane: the event up to which all changes had their effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import bindparam, select, update

from gateway.ledger.derived import log
from gateway.ledger.index_pages import LIST, is_listed, listed
from gateway.ledger.schema import progress
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.lanes import lane_of

_PREFIX: Final = "lane:"
"""A lane's position is stored where that of a board would be; no board has a colon in its name."""

_p = progress.c

_OF_CONSUMER = Query(select(_p.board, _p.seq).where(_p.consumer == bindparam("consumer")))
_ADVANCE = Query(
    update(progress)
    .where(_p.consumer == bindparam("of"), is_listed(_p.board), _p.seq < bindparam("upto"))
    .values(seq=bindparam("upto"))
)


def of_lanes(consumer: str, lanes: Collection[int]) -> Operation[dict[int, int]]:
    """Return the positions of those of these lanes in which a consumer ever began.

    Before there were lanes, each board had a position. The first of a lane's boards is the lane's.
    """

    async def work(tx: Transaction) -> dict[int, int]:
        rows = {str(board): int(seq) for board, seq in await tx.rows(_OF_CONSUMER, consumer=consumer)}
        of_boards: dict[int, int] = {}
        for board, seq in rows.items():
            if board and not board.startswith(_PREFIX):
                of_boards[lane_of(board)] = min(seq, of_boards.get(lane_of(board), seq))
        positions = {lane: rows.get(f"{_PREFIX}{lane}", of_boards.get(lane)) for lane in lanes}
        return {lane: seq for lane, seq in positions.items() if seq is not None}

    return work


def put(consumer: str, positions: Mapping[int, int]) -> Operation[None]:
    """Store positions."""

    async def work(tx: Transaction) -> None:
        for lane, seq in positions.items():
            await log.move(consumer, seq, f"{_PREFIX}{lane}")(tx)

    return work


def advance(consumer: str, lanes: Collection[int], seq: int) -> Operation[None]:
    """Move those positions that are behind `seq` up to it."""

    async def work(tx: Transaction) -> None:
        names = [f"{_PREFIX}{lane}" for lane in lanes]
        for at in range(0, len(names), LIST):
            await tx.run(_ADVANCE, of=consumer, upto=seq, **listed(names[at : at + LIST]))

    return work
