"""What a rebuild puts into the index, in pages of plain rows: objects would take half of its time."""

from __future__ import annotations

from typing import Any, Final

import orjson
from sqlalchemy import bindparam, func, select

from gateway.ledger.schema import baselines, players, standings
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import BaselineRow, StandingRow
from validators.baseline import moments_of

_STANDINGS: Final = Query(
    select(
        standings.c.player,
        func.coalesce(players.c.name, ""),
        standings.c.score,
        standings.c.order_value,
        standings.c.member,
        standings.c.seq,
        standings.c.submission_id,
    )
    .select_from(standings.outerjoin(players, players.c.player == standings.c.player))
    .where(
        standings.c.board == bindparam("board"),
        standings.c.window == bindparam("window"),
        standings.c.player > bindparam("after"),
    )
    .order_by(standings.c.player)
    .limit(bindparam("count"))
)
_learnt = (
    select(
        baselines.c.player,
        baselines.c.seq,
        baselines.c.count,
        baselines.c.total,
        baselines.c.total_of_squares,
        baselines.c.lowest,
        baselines.c.highest,
        baselines.c.recent,
    )
    .where(baselines.c.board == bindparam("board"))
    .order_by(baselines.c.player)
    .limit(bindparam("count"))
)
_BASELINES_FIRST: Final = Query(_learnt)
_BASELINES: Final = Query(_learnt.where(baselines.c.player > bindparam("after")))


def standing_rows(board: str, window: str, after: str, *, count: int) -> Operation[list[StandingRow]]:
    """Return standings of a window in the order of players, after player `after`."""

    async def work(tx: Transaction) -> list[StandingRow]:
        rows: list[Any] = await tx.rows(_STANDINGS, board=board, window=window, after=after, count=count)
        return rows

    return work


def baseline_rows(board: str, after: str | None, *, count: int) -> Operation[list[BaselineRow]]:
    """Return baselines of a board in the order of players, after `after`, with populations among them."""

    async def work(tx: Transaction) -> list[BaselineRow]:
        if after is None:
            rows = await tx.rows(_BASELINES_FIRST, board=board, count=count)
        else:
            rows = await tx.rows(_BASELINES, board=board, count=count, after=after)
        return [
            (
                player,
                (
                    seq,
                    count,
                    *moments_of(count, int(total), int(squares)),
                    lowest,
                    highest,
                    [score for _, _, score in orjson.loads(recent)],
                ),
            )
            for player, seq, count, total, squares, lowest, highest, recent in rows
        ]

    return work
