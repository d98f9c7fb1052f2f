"""Achievements: a player's first time among the first ten of a window. They are kept for ever."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import and_, bindparam, or_, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import achievements, events
from gateway.ledger.transaction import Operation, Query, Transaction

_a = achievements.c

_ADD = Query(insert(achievements).on_conflict_do_nothing(index_elements=["board", "window", "player"]))
_AT = Query(select(events.c.at_ms).where(events.c.seq == bindparam("number")))
_OF_EVENT = Query(select(events.c.submission_id).where(events.c.seq == bindparam("number")))
_IS_THERE = Query(
    select(_a.rank).where(
        _a.board == bindparam("board"), _a.window == bindparam("window"), _a.player == bindparam("player")
    )
)
_OF_PLAYER = Query(
    select(_a.board, _a.window, _a.player, _a.rank, _a.submission_id, _a.seq, _a.at_ms)
    .where(
        _a.player == bindparam("player"),
        or_(
            _a.seq < bindparam("before"),
            and_(_a.seq == bindparam("before"), _a.window > bindparam("after")),
        ),
    )
    .order_by(_a.seq.desc(), _a.window)
    .limit(bindparam("count"))
)


class Achievement(NamedTuple):
    """A player's first entry into the first ten of a window, and the submission and event behind it."""

    board: str
    window: str
    player: str
    rank: int
    submission_id: str
    seq: int
    at_ms: int


async def add_achievement(tx: Transaction, achievement: Achievement) -> bool:
    """Add an achievement, and return whether it is new. The first one of a player in a window stays."""
    return bool(await tx.run(_ADD, **achievement._asdict()))


async def event_time_ms(tx: Transaction, seq: int) -> int | None:
    """Return when an event happened (Unix ms), or None if there is no such event."""
    rows = await tx.rows(_AT, number=seq)
    return int(rows[0][0]) if rows else None


async def is_event_of(tx: Transaction, seq: int, submission_id: str) -> bool:
    """Return whether an event belongs to a submission."""
    return (submission_id,) in await tx.rows(_OF_EVENT, number=seq)


async def is_reached(tx: Transaction, board: str, window: str, player: str) -> bool:
    """Return whether a player has the achievement of a window."""
    return bool(await tx.rows(_IS_THERE, board=board, window=window, player=player))


def achievements_of(player: str, *, before: int, after: str, count: int) -> Operation[list[Achievement]]:
    """Return a player's achievements, newest first, of events before `before`.

    Achievements of event `before` itself are included if their windows come after `after`.
    """

    async def work(tx: Transaction) -> list[Achievement]:
        rows = await tx.rows(_OF_PLAYER, player=player, before=before, after=after, count=count)
        return [Achievement(*row) for row in rows]

    return work
