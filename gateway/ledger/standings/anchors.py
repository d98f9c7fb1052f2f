"""Anchors: the number of standings ahead of about every thousandth place, so that ranks are cheap to count.

A move notes a standing that came (1) or went (-1). An anchor's number leaves out the moves noted now.
At every commit, for each anchor and both series (standings, and groups of tied ones by their begin):

    the anchor's number + the sum of the moves ahead of its place = the number ahead of its place now

Every writer keeps this true in one transaction, and writers take turns:

- `note_move` in `noted_moves`, called for every change of a standing, adds the change of the right-hand side
  to the moves;
- a new anchor gets the number ahead of it now, less the moves ahead of it;
- folding adds some of the moves to the anchors behind them, and removes these moves;
- anchors can be removed; a writer that places standings by another rule removes all anchors and moves of the
  window.

So a rank is exact however old the anchors are; their age only costs time. At most 2 x SPACING standings lie
between two anchors, and the steward folds moves once there are FOLDED. A rank therefore examines at most
2 x SPACING standings, FOLDED moves, and the moves since the steward's last round. A window of up to LEAST
standings is counted without anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Table,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.schema import Text, anchored_windows, rank_anchors, rank_moves, standings
from gateway.ledger.standings.noted_moves import drop_anchors
from gateway.ledger.standings.ranks import (
    ENTRIES,
    FIRST,
    GROUPS,
    LAST,
    Anchor,
    RankedWindow,
    anchor_rule,
    bind,
    bound,
    in_window,
    place_of,
)
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import BoardPlace, Ranking

SPACING: Final = 1_000
"""Standings between two anchors when they are set."""

LEAST: Final = 4_000
"""Most standings of a window without anchors."""

FOLDED: Final = 1_000
"""Noted moves from which on the steward folds them into the anchors."""

FOLDED_AT_ONCE: Final = 20_000
SET_AT_ONCE: Final = 16
"""Moves folded, and anchors set, in one transaction: other writes wait some hundredths of a second for it."""

MAY_NEED_TENDING: Final[ColumnElement[bool]] = or_(
    select(anchored_windows.c.rule).where(*in_window(anchored_windows)).exists(),
    select(standings.c.order_value)
    .where(*in_window(standings), standings.c.score.is_not(None))
    .order_by(standings.c.order_value, standings.c.member)
    .limit(1)
    .offset(bindparam("skipped"))
    .exists(),
)
"""Whether the window bound as `board` and `window` has anchors, or more than `skipped` standings."""

_RULE = Query(select(anchored_windows.c.rule).where(*in_window(anchored_windows)))
_ANCHORED = Query(
    select(anchored_windows.c.board, anchored_windows.c.window)
    .where(
        tuple_(anchored_windows.c.board, anchored_windows.c.window)
        > tuple_(bindparam("after_board", type_=Text), bindparam("after_window", type_=Text))
    )
    .order_by(anchored_windows.c.board, anchored_windows.c.window)
    .limit(bindparam("count"))
)
_BEGIN = Query(insert(anchored_windows))
_SET = Query(insert(rank_anchors))
_UNSET = Query(delete(rank_anchors).where(*in_window(rank_anchors), place_of(rank_anchors) == bound("at")))
_ANCHORS = Query(
    select(rank_anchors.c.order_value, rank_anchors.c.member, rank_anchors.c.ahead)
    .where(*in_window(rank_anchors))
    .order_by(rank_anchors.c.order_value, rank_anchors.c.member)
)
_ANCHORS_AFTER = Query(
    select(rank_anchors.c.order_value, rank_anchors.c.member)
    .where(*in_window(rank_anchors), place_of(rank_anchors) > bound("at"))
    .order_by(rank_anchors.c.order_value, rank_anchors.c.member)
    .limit(1)
)
_MOVES = Query(
    select(func.count()).select_from(
        select(rank_moves.c.member).where(*in_window(rank_moves)).limit(bindparam("most")).subquery()
    )
)
_LAST_FOLDED = Query(
    select(rank_moves.c.order_value, rank_moves.c.member)
    .where(*in_window(rank_moves))
    .order_by(rank_moves.c.order_value, rank_moves.c.member)
    .limit(1)
    .offset(bindparam("skipped"))
)
_FORGET = Query(delete(rank_moves).where(*in_window(rank_moves), place_of(rank_moves) <= bound("upto")))


def _along(table: Table, entries: Any, groups: Any, is_anchor: int) -> Select[Any]:
    """Return the places of a table in the window, each with what it adds to the two series."""
    facts: tuple[Any, ...] = (
        literal_column(str(is_anchor)).label("is_anchor"),
        entries.label("entries"),
        groups.label("grouped"),
    )
    return select(table.c.order_value, table.c.member, *facts).where(*in_window(table))


def _fold() -> Query:
    """Return the query that adds moves up to a place to the anchors behind them, by a running sum."""
    none: Any = literal_column("0")
    delta, series = rank_moves.c.delta, rank_moves.c.series
    moves = _along(
        rank_moves, case((series == ENTRIES, delta), else_=0), case((series == GROUPS, delta), else_=0), 0
    ).where(place_of(rank_moves) <= bound("upto"))
    line = union_all(moves, _along(rank_anchors, none, none, 1)).subquery("line")
    order = (
        line.c.order_value,
        line.c.member,
        line.c.is_anchor.desc(),
    )  # a move at its place is not ahead of it
    sums = [
        cast(func.sum(column).over(order_by=order, rows=(None, 0)), BigInteger()).label(name)
        for name, column in (("entries", line.c.entries), ("grouped", line.c.grouped))
    ]
    shifts = select(line.c.order_value, line.c.member, line.c.is_anchor, *sums).subquery("shifts")
    return Query(
        update(rank_anchors)
        .where(
            *in_window(rank_anchors),
            rank_anchors.c.order_value == shifts.c.order_value,
            rank_anchors.c.member == shifts.c.member,
            shifts.c.is_anchor == 1,
        )
        .values(
            ahead=rank_anchors.c.ahead + shifts.c.entries,
            groups_ahead=rank_anchors.c.groups_ahead + shifts.c.grouped,
        )
    )


_FOLD = _fold()


def anchored_after(after: tuple[str, str], *, count: int) -> Operation[list[tuple[str, str]]]:
    """Return the next (board, window) after one that have anchors."""

    async def work(tx: Transaction) -> list[tuple[str, str]]:
        board, window = after
        rows = await tx.rows(_ANCHORED, after_board=board, after_window=window, count=count)
        return [(row[0], row[1]) for row in rows]

    return work


def is_large(ranking: Ranking, window: str) -> Operation[bool]:
    """Return whether a window has more than LEAST standings."""

    async def work(tx: Transaction) -> bool:
        return await RankedWindow(tx, ranking, window).nth(FIRST, LEAST) is not None

    return work


def need_tending(ranking: Ranking, window: str) -> Operation[bool]:
    """Return whether anchors of a window have to be begun, dropped, or have moves folded into them."""

    async def work(tx: Transaction) -> bool:
        key = {"board": ranking.policy.board, "window": window}
        rules = await tx.rows(_RULE, **key)
        if not rules:
            return await is_large(ranking, window)(tx)
        [[moves]] = await tx.rows(_MOVES, **key, most=FOLDED)
        return bool(rules[0][0] != anchor_rule(ranking) or moves >= FOLDED)

    return work


def tend_anchors(ranking: Ranking, window: str) -> Operation[int]:
    """Fold moves into a window's anchors, begin its anchors, or drop those of another rule.

    Returns the number of folded moves, or 1 if anchors were begun or dropped.
    """

    async def work(tx: Transaction) -> int:
        key = {"board": ranking.policy.board, "window": window}
        rules = await tx.rows(_RULE, **key)
        if rules and rules[0][0] != anchor_rule(ranking):
            await drop_anchors(tx, **key)
            return 1
        if rules:
            return await _fold_moves(tx, key)
        if not await is_large(ranking, window)(tx):
            return 0
        await tx.run(_BEGIN, **key, rule=anchor_rule(ranking))
        await _set(tx, key, Anchor(FIRST, 0, 0))
        return 1

    return work


def spacing_of(ranking: Ranking, window: str) -> Operation[tuple[list[BoardPlace], list[BoardPlace]]]:
    """Return the anchors of a window that are followed by too many standings, and those that can go.

    An anchor can go if its neighbours are at most SPACING apart. Distances are by the anchors' own numbers,
    from before the noted moves; standings behind the last anchor are counted.
    """

    async def work(tx: Transaction) -> tuple[list[BoardPlace], list[BoardPlace]]:
        rows = await tx.rows(_ANCHORS, board=ranking.policy.board, window=window)
        anchors = [Anchor(BoardPlace(order, member), ahead, 0) for order, member, ahead in rows]
        if not anchors:
            return [], []
        wide = [one.place for one, other in pairwise(anchors) if other.ahead - one.ahead > 2 * SPACING]
        if await RankedWindow(tx, ranking, window).nth(anchors[-1].place, 2 * SPACING):
            wide.append(anchors[-1].place)
        return wide, _spare(anchors)

    return work


def respace(
    ranking: Ranking, window: str, wide: Sequence[BoardPlace], spare: Sequence[BoardPlace]
) -> Operation[int]:
    """Set anchors behind `wide` ones, remove `spare` ones, and return how many changed."""

    async def work(tx: Transaction) -> int:
        key = {"board": ranking.policy.board, "window": window}
        ranked = RankedWindow(tx, ranking, window)
        changed = sum([await tx.run(_UNSET, **key, **bind(at=place)) for place in spare])
        for place in wide:
            changed += await _fill(ranked, key, place, SET_AT_ONCE)
        return changed

    return work


async def _fill(ranked: RankedWindow, key: dict[str, str], begin: BoardPlace, limit: int) -> int:
    """Set anchors behind a place while over 2 x SPACING standings precede the next one; return how many."""
    count = 0
    rows = await ranked.tx.rows(_ANCHORS_AFTER, **key, **bind(at=begin))
    end = BoardPlace(*rows[0]) if rows else LAST
    while count < limit:
        far = await ranked.nth(begin, 2 * SPACING)
        at = await ranked.nth(begin, SPACING)
        if far is None or at is None or far >= end:
            break
        await _set(ranked.tx, key, await _anchor(ranked, at))
        begin, count = at, count + 1
    return count


async def _anchor(ranked: RankedWindow, place: BoardPlace) -> Anchor:
    """Return the anchor of a standing's place, less the moves that are noted."""
    moveless = Anchor(place, 0, 0)
    ahead = await ranked.ahead(place) - await ranked.moved(moveless, ENTRIES)
    if not ranked.ranking.keeps_groups:
        return Anchor(place, ahead, 0)
    own = ranked.ranking.group_begin(ranked.window, place)
    begins_here = own == place  # never at a member with a player in it: each is behind its group's begin
    groups = await ranked.groups_ahead(own) + (not begins_here) - await ranked.moved(moveless, GROUPS)
    return Anchor(place, ahead, groups)


async def _fold_moves(tx: Transaction, key: dict[str, str]) -> int:
    """Fold moves, the first ones if they are too many for one transaction, and return how many."""
    rows = await tx.rows(_LAST_FOLDED, **key, skipped=FOLDED_AT_ONCE)
    upto = BoardPlace(*rows[0]) if rows else LAST
    await tx.run(_FOLD, **key, **bind(upto=upto))
    return await tx.run(_FORGET, **key, **bind(upto=upto))


async def _set(tx: Transaction, key: dict[str, str], anchor: Anchor) -> None:
    order, member = anchor.place
    await tx.run(
        _SET, **key, order_value=order, member=member, ahead=anchor.ahead, groups_ahead=anchor.groups_ahead
    )


def _spare(anchors: Sequence[Anchor]) -> list[BoardPlace]:
    """Return anchors whose neighbours are at most SPACING apart; never two adjacent ones or an end."""
    spare: list[BoardPlace] = []
    kept = 0
    for at in range(1, len(anchors) - 1):
        if kept == at - 1 and anchors[at + 1].ahead - anchors[kept].ahead <= SPACING:
            spare.append(anchors[at].place)
        else:
            kept = at
    return spare[:SET_AT_ONCE]
