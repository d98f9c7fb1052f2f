"""All that the index has of a small board, as the ledger has it at one moment."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam

from gateway.ledger.derived.log import projected
from gateway.ledger.index_pages import (
    STANDING_OF_BOARD,
    BoardEvent,
    events_before,
    live_windows,
)
from gateway.ledger.queries import baselines_page, pending_submissions
from gateway.ledger.schema import standings
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.shared_records import Standing, StoredBaseline

_FIRST_STANDINGS: Final = Query(
    STANDING_OF_BOARD.order_by(standings.c.window, standings.c.player).limit(bindparam("count"))
)


class WholeBoard(NamedTuple):
    """All that the index has of a board at the moment when `upto` was the newest event.

    `pending` has rows as `pending_submissions` returns them, and `events` are newest first. The index has
    been shown every change up to `shown_upto`.
    """

    standings: list[Standing]
    baselines: list[StoredBaseline]
    pending: list[Row]
    events: list[BoardEvent]
    upto: int
    shown_upto: int


def whole_board(board: str, *, now_ms: int, since_ms: int, count: int) -> Operation[WholeBoard | None]:
    """Return all that the index has of a board in live windows, with its events after `since_ms`.

    Everything is of one moment. Returns None if the board has `count` rows of one kind, or more.
    """

    async def work(tx: Transaction) -> WholeBoard | None:
        shown_upto, newest = await projected()(tx)
        rows = await tx.rows(_FIRST_STANDINGS, board=board, count=count)
        learnt = await baselines_page(board, after=None, count=count)(tx)
        pending = await pending_submissions(board, after=0, count=count)(tx)
        events = await events_before(board, newest + 1, count=count)(tx)
        recent = [event for event in events if event.at_ms > since_ms]
        if max(len(rows), len(learnt), len(pending), len(recent)) >= count:
            return None
        kept = [Standing(*row) for row in rows]
        current = [standing for standing in kept if standing.expires_at_ms > now_ms]
        return WholeBoard(current, learnt, pending, recent, newest, shown_upto)

    return work


def has_content(board: str, *, now_ms: int) -> Operation[bool]:
    """Return whether anybody stands in a live window of a board, or a submission waits there."""

    async def work(tx: Transaction) -> bool:
        if await live_windows(board, now_ms=now_ms)(tx):
            return True
        return bool(await pending_submissions(board, after=0, count=1)(tx))

    return work
