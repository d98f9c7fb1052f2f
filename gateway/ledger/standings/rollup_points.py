"""Points that players have for their ranks on a family's boards, and boards on which they may be others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import Text, rollup_changes, rollup_points, standings
from gateway.ledger.standings.rollups import NO_SHARE, Share, is_deleted
from gateway.ledger.transaction import Operation, Query, Transaction

MOVES: Final = 100
"""Players whose points change in a transaction, which other writes wait for, until it takes no other board.

The ranks of a board are given their points at once, so there may be `PLACES_LIMIT` players more.
"""

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
    .where(
        tuple_(_c.rollup, _c.board, _c.window)
        > tuple_(*(bindparam(f"last_{name}", type_=Text) for name in ("rollup", "board", "window")))
    )
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
_points = select(_p.player, _p.points, _p.achieved_at_ms, _p.achieved_seq, _p.submission_id)
_GIVEN = Query(_points.where(*_AT_BOARD).limit(bindparam("count")))
_OF_PLAYER = Query(_points.where(*_AT_BOARD, _p.player == bindparam("at_player")))
_PLAYERS = Query(
    select(_st.player)
    .where(
        _st.board == bindparam("board"), _st.window == bindparam("window"), _st.player > bindparam("after")
    )
    .order_by(_st.player)
    .limit(bindparam("count"))
)
_TAKE = Query(delete(rollup_points).where(*_AT_BOARD, _p.player == bindparam("at_player")))
_FORGET = Query(
    delete(rollup_points).where(
        _p.rollup == bindparam("at_rollup"),
        _p.player == bindparam("at_player"),
        _p.window == bindparam("at_window"),
    )
)
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

    @property
    def at(self) -> dict[str, str]:
        """The values to bind for the rows of this rollup, board and window."""
        return {"at_rollup": self.rollup, "at_board": self.board, "at_window": self.window}


BEFORE_ALL: Final = RollupChange("", "", "", 0)
"""What is ahead of every change."""


class Points(NamedTuple):
    """A player's points on one board, and the run that they were reached with."""

    player: str
    points: int
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str

    @property
    def share(self) -> Share:
        """The points as a share of the rollup."""
        return Share(*self[1:])


class PointsMove(NamedTuple):
    """A player whose points on one board changed, as the shares before and after."""

    player: str
    before: Share
    after: Share


async def note_change(tx: Transaction, change: RollupChange) -> None:
    """Note that a board's ranks have to be compared."""
    await tx.run(_NOTE, **change._asdict())


async def note_changes(tx: Transaction, changes: Iterable[RollupChange]) -> None:
    """Note that boards have to be compared, without waiting for each."""
    await tx.run_each(_NOTE, [change._asdict() for change in changes])


def changes_due(count: int, *, after: RollupChange = BEFORE_ALL) -> Operation[list[RollupChange]]:
    """Return the next windows of boards after one, up to `count`, whose ranks have to be compared."""
    last = {"last_rollup": after.rollup, "last_board": after.board, "last_window": after.window}

    async def work(tx: Transaction) -> list[RollupChange]:
        return [RollupChange(*row) for row in await tx.rows(_DUE, **last, count=count)]

    return work


async def players_to_follow(tx: Transaction, change: RollupChange, *, count: int) -> list[str]:
    """Return the next players of a deleted board, and note how far it was followed, or that it was."""
    values = {"board": change.board, "window": change.window, "after": change.after, "count": count}
    players = [row[0] for row in await tx.rows(_PLAYERS, **values)]
    if len(players) < count:
        await finish_change(tx, change)
    else:
        await note_change(tx, change._replace(after=players[-1]))
    return players


def drop_change(change: RollupChange) -> Operation[int]:
    """Drop a change that no policy asks for any more; return how many there were."""

    async def work(tx: Transaction) -> int:
        return await finish_change(tx, change)

    return work


async def finish_change(tx: Transaction, change: RollupChange) -> int:
    """Strike a change that was followed, unless it was noted again since; return how many there were."""
    return await tx.run(_DONE, **change.at, at_seq=change.seq)


async def forget_points(tx: Transaction, rollup: str, window: str, players: Iterable[str]) -> None:
    """Take away the points that players had before a rollup took something else."""
    for player in players:
        await tx.run(_FORGET, at_rollup=rollup, at_window=window, at_player=player)


async def give_points(
    tx: Transaction, change: RollupChange, scale: Sequence[int]
) -> tuple[list[PointsMove], bool]:
    """Give the points of `scale` to the first ranks of a board; return whose changed, and whether all have.

    A deleted board has no ranks. After a change of the policy, a board may have more points than `MOVES`
    allows to take away at once.
    """
    count = 0 if await is_deleted(tx, change.board) else len(scale)
    rows = await tx.rows(_FIRST, board=change.board, window=change.window, count=count)
    due = {row[0]: Points(row[0], points, *row[1:]) for row, points in zip(rows, scale, strict=False)}
    given = await given_points(tx, change, count=len(due) + MOVES + 1)
    is_whole = len(given) <= len(due) + MOVES
    gone = [player for player in given if player not in due][:MOVES]
    moves = [await give(tx, change, given[player], None) for player in gone]
    if is_whole:
        moves += [await give(tx, change, given.get(player), points) for player, points in due.items()]
        await finish_change(tx, change)
    return [move for move in moves if move], is_whole


async def given_points(tx: Transaction, change: RollupChange, *, count: int) -> Mapping[str, Points]:
    """Return up to `count` of the points that players have on a board, by player."""
    return {row[0]: Points(*row) for row in await tx.rows(_GIVEN, **change.at, count=count)}


async def points_of(tx: Transaction, change: RollupChange, player: str) -> Points | None:
    """Return the points that a player has on a board."""
    rows = await tx.rows(_OF_PLAYER, **change.at, at_player=player)
    return Points(*rows[0]) if rows else None


async def give(
    tx: Transaction, change: RollupChange, given: Points | None, due: Points | None
) -> PointsMove | None:
    """Store a player's points on a board, None for none; return the change, None if there is none."""
    player = (given or due or _NOBODY).player
    if given == due:
        return None
    if due is None:
        await tx.run(_TAKE, **change.at, at_player=player)
    else:
        slot = {"rollup": change.rollup, "board": change.board, "window": change.window}
        await tx.run(_GIVE, **slot, **due._asdict())
    return PointsMove(player, given.share if given else NO_SHARE, due.share if due else NO_SHARE)


_NOBODY: Final = Points("", 0, 0, 0, "")
