"""Points for the first ranks of a family's boards: boards to compare, and the points that players have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import rollup_changes, rollup_points, standings
from gateway.ledger.standings.rollups import is_deleted
from gateway.ledger.transaction import Operation, Query, Transaction

_st, _p, _c = standings.c, rollup_points.c, rollup_changes.c

_FACTS: Final = ("points", "achieved_at_ms", "achieved_seq", "submission_id")
_AT_BOARD: Final = (
    _p.rollup == bindparam("at_rollup"),
    _p.board == bindparam("at_board"),
    _p.window == bindparam("at_window"),
)
_put_change = insert(rollup_changes)
_NOTE = Query(
    _put_change.on_conflict_do_update(
        index_elements=["rollup", "board", "window"],
        set_={name: _put_change.excluded[name] for name in ("seq", "after")},
    )
)
_DUE = Query(
    select(_c.rollup, _c.board, _c.window, _c.seq, _c.after)
    .order_by(_c.rollup, _c.board, _c.window)
    .limit(bindparam("count"))
)
_DONE = Query(
    delete(rollup_changes).where(
        _c.rollup == bindparam("at_rollup"),
        _c.board == bindparam("at_board"),
        _c.window == bindparam("at_window"),
        _c.seq == bindparam("at_seq"),
    )
)
_FIRST = Query(
    select(_st.player, _st.achieved_at_ms, _st.achieved_seq, _st.submission_id)
    .where(_st.board == bindparam("board"), _st.window == bindparam("window"), _st.score.is_not(None))
    .order_by(_st.order_value, _st.member)
    .limit(bindparam("count"))
)
_GIVEN = Query(
    select(_p.player, _p.points, _p.achieved_at_ms, _p.achieved_seq, _p.submission_id).where(*_AT_BOARD)
)
_PLAYERS = Query(
    select(_st.player)
    .where(
        _st.board == bindparam("board"), _st.window == bindparam("window"), _st.player > bindparam("after")
    )
    .order_by(_st.player)
    .limit(bindparam("count"))
)
_TAKE = Query(delete(rollup_points).where(*_AT_BOARD, _p.player == bindparam("at_player")))
_put = insert(rollup_points)
_GIVE = Query(
    _put.on_conflict_do_update(
        index_elements=["rollup", "player", "window", "board"],
        set_={name: _put.excluded[name] for name in _FACTS},
    )
)


class RollupChange(NamedTuple):
    """A window of a board that changed with event `seq` in a way that its rollup has still to follow.

    `after` is the last of the players who were followed, of a board that was deleted.
    """

    rollup: str
    board: str
    window: str
    seq: int
    after: str = ""


class Points(NamedTuple):
    """A player's points on one board, and the run that they were reached with."""

    player: str
    points: int
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str


async def note_change(tx: Transaction, change: RollupChange) -> None:
    """Note that a board's ranks have to be compared."""
    await tx.run(_NOTE, **change._asdict())


def changes_due(count: int) -> Operation[list[RollupChange]]:
    """Return up to `count` windows of boards whose ranks have to be compared."""

    async def work(tx: Transaction) -> list[RollupChange]:
        return [RollupChange(*row) for row in await tx.rows(_DUE, count=count)]

    return work


async def players_to_follow(tx: Transaction, change: RollupChange, *, count: int) -> list[str]:
    """Return the next players of a deleted board, and note how far it was followed, or that it was."""
    values = {"board": change.board, "window": change.window, "after": change.after, "count": count}
    players = [row[0] for row in await tx.rows(_PLAYERS, **values)]
    if len(players) < count:
        await _done(tx, change)
    else:
        await note_change(tx, change._replace(after=players[-1]))
    return players


def drop_change(change: RollupChange) -> Operation[int]:
    """Drop a change that no policy asks for any more; return how many there were."""

    async def work(tx: Transaction) -> int:
        return await _done(tx, change)

    return work


async def give_points(tx: Transaction, change: RollupChange, scale: Sequence[int]) -> set[str]:
    """Give the points of `scale` to the first ranks of a board; return the players for whom they changed.

    A deleted board has no ranks.
    """
    count = 0 if await is_deleted(tx, change.board) else len(scale)
    rows = await tx.rows(_FIRST, board=change.board, window=change.window, count=count)
    due = {row[0]: Points(row[0], points, *row[1:]) for row, points in zip(rows, scale, strict=False)}
    where = {"at_rollup": change.rollup, "at_board": change.board, "at_window": change.window}
    given = {row[0]: Points(*row) for row in await tx.rows(_GIVEN, **where)}
    for player in given.keys() - due.keys():
        await tx.run(_TAKE, **where, at_player=player)
    changed = {player for player, points in due.items() if given.get(player) != points}
    for player in changed:
        slot = {"rollup": change.rollup, "board": change.board, "window": change.window}
        await tx.run(_GIVE, **slot, **due[player]._asdict())
    await _done(tx, change)
    return changed | (given.keys() - due.keys())


async def _done(tx: Transaction, change: RollupChange) -> int:
    where = {"at_rollup": change.rollup, "at_board": change.board, "at_window": change.window}
    return await tx.run(_DONE, **where, at_seq=change.seq)
