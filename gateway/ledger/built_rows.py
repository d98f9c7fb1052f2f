"""What a rebuild puts into the index, in pages of columns: objects and rows would take most of its time."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Select, bindparam, func, select

from gateway.ledger.schema import baselines, players, standings
from gateway.ledger.transaction import ListOf, Operation, Query, Transaction, listed
from gateway.shared_records import BaselineFacts, BaselinePage, StandingPage
from validators.baseline import moments_of


class StandingsRead(NamedTuple):
    """Standings of a window, and the last player of them; None without any."""

    page: StandingPage
    last: str | None


class BaselinesRead(NamedTuple):
    """Baselines of a board, and the last subject of them; None without any."""

    page: BaselinePage
    last: str | None


def _page_of(rows: Select[Any]) -> Select[Any]:
    """Return the selection of a list for each column of these rows, and of the last player among them."""
    page = rows.limit(bindparam("count")).subquery()
    return select(*map(ListOf, page.c), func.max(page.c.player))


_standing = (
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
)
_STANDINGS: Final = Query(_page_of(_standing))
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
)
_BASELINES_FIRST: Final = Query(_page_of(_learnt))
_BASELINES: Final = Query(_page_of(_learnt.where(baselines.c.player > bindparam("after"))))


def standing_pages(board: str, window: str, after: str, *, count: int) -> Operation[StandingsRead]:
    """Return standings of a window in the order of players, after player `after`."""

    async def work(tx: Transaction) -> StandingsRead:
        [(*columns, last)] = await tx.rows(_STANDINGS, board=board, window=window, after=after, count=count)
        return StandingsRead(StandingPage(*map(listed, columns)), last)

    return work


def baseline_pages(board: str, after: str | None, *, count: int) -> Operation[BaselinesRead]:
    """Return baselines of a board in the order of players, after `after`, with populations among them."""

    async def work(tx: Transaction) -> BaselinesRead:
        if after is None:
            rows = await tx.rows(_BASELINES_FIRST, board=board, count=count)
        else:
            rows = await tx.rows(_BASELINES, board=board, count=count, after=after)
        [(*columns, last)] = rows
        subjects, *others = map(listed, columns)
        return BaselinesRead(BaselinePage(subjects, list(map(_facts, *others))), last)

    return work


def _facts(
    seq: int, count: int, total: str, squares: str, lowest: int | None, highest: int | None, recent: str
) -> BaselineFacts:
    moments = moments_of(count, int(total), int(squares))
    return seq, count, *moments, lowest, highest, [score for _, _, score in orjson.loads(recent)]
