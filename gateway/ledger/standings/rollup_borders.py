"""Points for percentiles: the borders between those who have them on a board and those who have not.

A player has a percentile, in the words of `gateway.edge.reads.distribution_reader`, if at least that share of
the window's entries is not better. So all entries up to a border have it, and none behind. The ledger stores
the borders of each board by which points were given, and this holds at every commit:

    a player's points = those of the best percentile whose stored border is behind the player's standing

A run that moves a player compares that one player with the stored borders, in its own transaction. A steward
finds where the borders belong, in a read for which no writer waits: from the nearest anchor, as for any rank.
Then it moves them there, and gives or takes the points of those between the old and the new border, at most
`MOVES` in one transaction. So writers wait for what crosses a border, however large the board.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson
from sqlalchemy import and_, bindparam, literal_column, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import Text, rollup_borders, rollup_points, standings
from gateway.ledger.standings.ranks import FIRST, RankedWindow, bind, bound, in_window, place_of
from gateway.ledger.standings.rollup_points import (
    MOVES,
    Points,
    PointsMove,
    RollupChange,
    finish_change,
    give,
    given_points,
    note_change,
    points_of,
)
from gateway.ledger.standings.rollups import is_deleted
from gateway.ledger.standings.slots import StandingFold
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.shared_records import position_at
from policies.ranking import BoardPlace, Ranking
from policies.rollups import PercentilePoints

_st, _b, _p = standings.c, rollup_borders.c, rollup_points.c

_STORED = Query(
    select(_b.rule, _b.borders).where(
        _b.rollup == bindparam("at_rollup"),
        _b.board == bindparam("at_board"),
        _b.window == bindparam("at_window"),
    )
)
_put = insert(rollup_borders)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["rollup", "board", "window"],
        set_={name: _put.excluded[name] for name in ("rule", "borders")},
    )
)
_FORGET = Query(
    update(rollup_borders)
    .where(
        _b.rollup == bindparam("at_rollup"),
        _b.board == bindparam("at_board"),
        _b.window == bindparam("at_window"),
        _b.rule != literal_column("''"),
    )
    .values(rule=literal_column("''"))
)
_NEXT = Query(
    select(_b.board, _b.window)
    .where(
        _b.rollup == bindparam("at_rollup"),
        tuple_(_b.board, _b.window)
        > tuple_(bindparam("after_board", type_=Text), bindparam("after_window", type_=Text)),
    )
    .order_by(_b.board, _b.window)
    .limit(bindparam("count"))
)
_between = (
    select(_st.player, _st.order_value, _st.member, _st.achieved_at_ms, _st.achieved_seq, _st.submission_id)
    .where(
        *in_window(standings),
        _st.score.is_not(None),
        place_of(standings) >= bound("begin"),
        place_of(standings) < bound("end"),
    )
    .limit(bindparam("count"))
)
_ONWARDS = Query(_between.order_by(_st.order_value, _st.member))
_BACKWARDS = Query(_between.order_by(_st.order_value.desc(), _st.member.desc()))
_given = and_(
    _p.rollup == bindparam("at_rollup"),
    _p.player == _st.player,
    _p.window == bindparam("at_window"),
    _p.board == bindparam("at_board"),
)
_PLAYERS = Query(
    select(
        _st.player,
        _st.score,
        _st.order_value,
        _st.member,
        *(_st.achieved_at_ms, _st.achieved_seq, _st.submission_id),
        *(_p.points, _p.achieved_at_ms, _p.achieved_seq, _p.submission_id),
    )
    .select_from(standings.outerjoin(rollup_points, _given))
    .where(
        _st.board == bindparam("at_board"),
        _st.window == bindparam("at_window"),
        _st.player > bindparam("after"),
    )
    .order_by(_st.player)
    .limit(bindparam("count"))
)

Borders = Mapping[int, BoardPlace]
"""The first place behind those who have a percentile, by the percentile in hundredths of a percent."""


class PointsOfPercentiles(NamedTuple):
    """A board of a family, the rollup's percentiles, and the rule under which both were compared."""

    board: Ranking
    rollup: Ranking
    percentiles: Sequence[PercentilePoints]

    @property
    def rule(self) -> str:
        """The rule of borders: what decides about percentiles, points and places."""
        return f"{self.rollup.rule}:{self.board.rule}"

    def of(self, borders: Borders, place: BoardPlace | None) -> int:
        """Return the points at a place, 0 for none."""
        if place is None:
            return 0
        return max((each.points for each in self.percentiles if place < borders[each.share]), default=0)


async def wanted_borders(tx: Transaction, of: PointsOfPercentiles, window: str) -> Borders:
    """Return where the borders belong now: behind all whose score is that of a percentile's last entry."""
    ranked = RankedWindow(tx, of.board, window)
    total = 0 if await is_deleted(tx, of.board.policy.board) else await ranked.total()
    shares = [each.share for each in of.percentiles]
    if not total:
        return dict.fromkeys(shares, FIRST)
    places = await ranked.places_at([position_at(total, share) for share in shares])
    return {
        share: _behind_score(of.board, window, last) if last else FIRST
        for share, last in zip(shares, places, strict=True)
    }


async def give_to_mover(
    tx: Transaction, of: PointsOfPercentiles, change: RollupChange, fold: StandingFold
) -> PointsMove | None:
    """Give a player whose standing changed the points of the new place, by the stored borders.

    Borders that another process stored by other rules say nothing of this place. They end, and the change is
    noted, so that a steward begins anew.
    """
    stored = await _stored(tx, of, change)
    if stored is None and await forget_borders(tx, change):
        await note_change(tx, change)
    share = fold.share.after
    points = of.of(stored, fold.place) if stored else 0
    due = Points(fold.standing.player, points, *share[1:]) if points else None
    return await give(tx, change, await points_of(tx, change, fold.standing.player), due)


async def move_borders(
    tx: Transaction, of: PointsOfPercentiles, change: RollupChange, wanted: Borders
) -> tuple[list[PointsMove], bool]:
    """Move a board's borders towards where they belong, past `MOVES` players at most.

    Return whose points changed, and whether all borders are in their places. `wanted` was read after the
    change: what changed since then is noted under another event, and is followed by itself.
    """
    stored = await _stored(tx, of, change)
    if stored is None:
        return await _begin(tx, of, change), False
    now, moves = dict(stored), dict[str, PointsMove]()
    for share, border in wanted.items():
        rows, now[share] = await _passed(tx, change, now[share], border, count=MOVES - len(moves))
        for row in rows:
            if move := await _give_again(tx, of, change, now, row):
                first = moves.get(move.player, move)  # another border may have passed the player before
                moves[move.player] = move._replace(before=first.before)
        if len(moves) >= MOVES or now[share] != border:
            break
    if now != stored:
        await _put_borders(tx, of, change, now)
    is_whole = now == wanted
    if is_whole:
        await finish_change(tx, change)
    return list(moves.values()), is_whole


async def compare_players(
    tx: Transaction, of: PointsOfPercentiles, change: RollupChange, after: str, *, count: int
) -> tuple[list[PointsMove], str]:
    """Give up to `count` players of a board after one their points by the stored borders.

    Return whose points changed, and the last of the players, "" if nobody comes after. Borders meet only
    those whom they pass, and a process that does not know the rollup may have moved others past a border.
    """
    stored = await _stored(tx, of, change)
    if stored is None:
        return [], ""  # whoever made them void noted the board
    rows = await tx.rows(_PLAYERS, **change.at, after=after, count=count)
    moves = []
    for player, score, order, member, *facts in rows:
        points = of.of(stored, None if score is None else BoardPlace(order, member))
        due = Points(player, points, *facts[:3]) if points else None
        given = None if facts[3] is None else Points(player, *facts[3:])
        if move := await give(tx, change, given, due):
            moves.append(move)
    return moves, rows[-1][0] if len(rows) == count else ""


async def forget_borders(tx: Transaction, change: RollupChange) -> bool:
    """Make the borders of a board's window void, and return whether there were any.

    Whoever gives points by other rules, or moves players without them, must do so.
    """
    return bool(await tx.run(_FORGET, **change.at))


async def forget_all_borders(tx: Transaction, changes: Iterable[RollupChange]) -> None:
    """Make the borders of windows of boards void, without waiting for each."""
    await tx.run_each(_FORGET, [change.at for change in changes])


def forget_next_borders(
    rollup: str, after: tuple[str, str], *, count: int
) -> Operation[list[tuple[str, str]]]:
    """Make the borders of up to `count` (board, window) after one void, and return which, in order."""

    async def work(tx: Transaction) -> list[tuple[str, str]]:
        board, window = after
        rows = await tx.rows(_NEXT, at_rollup=rollup, after_board=board, after_window=window, count=count)
        await tx.run_each(_FORGET, [RollupChange(rollup, row[0], row[1], 0).at for row in rows])
        return [(row[0], row[1]) for row in rows]

    return work


async def _begin(tx: Transaction, of: PointsOfPercentiles, change: RollupChange) -> list[PointsMove]:
    """Take away points that were given by other rules; then store borders that nobody has passed."""
    given = await given_points(tx, change, count=MOVES)
    if not given:
        await _put_borders(tx, of, change, dict.fromkeys((each.share for each in of.percentiles), FIRST))
    moves = [await give(tx, change, points, None) for points in given.values()]
    return [move for move in moves if move]


def _behind_score(ranking: Ranking, window: str, place: BoardPlace) -> BoardPlace:
    """Return the first place behind all entries with a place's score, whatever breaks their tie."""
    slots = ranking.orders_per_score(window)
    return BoardPlace((place.order // slots + 1) * slots, "")


async def _passed(
    tx: Transaction, change: RollupChange, border: BoardPlace, wanted: BoardPlace, *, count: int
) -> tuple[Sequence[Row], BoardPlace]:
    """Return the standings that a border passes on its way, up to `count`, and where it is then."""
    begin, end = sorted((border, wanted))
    if begin == end:
        return (), border
    query = _ONWARDS if wanted == end else _BACKWARDS
    where = {"board": change.board, "window": change.window, **bind(begin=begin, end=end)}
    rows = await tx.rows(query, **where, count=count + 1)
    if len(rows) <= count:
        return rows, wanted
    # On its way on, the border is at the first standing that it has not passed; on its way back, at the last
    # one that it has.
    return rows[:count], BoardPlace(*rows[count if wanted == end else count - 1][1:3])


async def _give_again(
    tx: Transaction, of: PointsOfPercentiles, change: RollupChange, borders: Borders, row: Row
) -> PointsMove | None:
    player, order, member, *reached = row
    points = of.of(borders, BoardPlace(order, member))
    due = Points(player, points, *reached) if points else None
    return await give(tx, change, await points_of(tx, change, player), due)


async def _stored(tx: Transaction, of: PointsOfPercentiles, change: RollupChange) -> Borders | None:
    """Return the stored borders; None if there are none by this rule."""
    rows = await tx.rows(_STORED, **change.at)
    if not rows or rows[0][0] != of.rule:
        return None
    return {int(share): BoardPlace(*place) for share, place in orjson.loads(rows[0][1]).items()}


async def _put_borders(
    tx: Transaction, of: PointsOfPercentiles, change: RollupChange, borders: Borders
) -> None:
    text = orjson.dumps({str(share): tuple(place) for share, place in borders.items()}).decode()
    where = {"rollup": change.rollup, "board": change.board, "window": change.window}
    await tx.run(_PUT, **where, rule=of.rule, borders=text)
