"""Reads of a window by place in SQL alone, with the same order, ranks and totals as the index.

Standings ahead of a place are counted from the last anchor before it (`gateway.ledger.standings.anchors`), or
from the beginning of a window without anchors. Both are exact in the transaction's snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Table,
    bindparam,
    cast,
    func,
    select,
    tuple_,
)

from gateway.ledger.schema import anchored_windows, players, rank_anchors, rank_moves, standings
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking

FIRST: Final = BoardPlace(-(2**63), "")
LAST: Final = BoardPlace(2**63 - 1, "")
"""Places before and behind every possible standing: orders are integers that doubles represent exactly."""

ENTRIES: Final = 0
GROUPS: Final = 1
"""The two series that anchors count: standings, and groups of tied ones by their begin."""


class Slice(NamedTuple):
    """Standings of a window from 0-based position `first`.

    `lead` is the rank of the first row, from 1, or 0 without rows. A row is (player, order, member,
    submission id, display name).
    """

    total: int
    first: int
    lead: int
    rows: Sequence[Row]


class Anchor(NamedTuple):
    """A place, and how many standings and groups were ahead of it before the moves that are noted now."""

    place: BoardPlace
    ahead: int
    groups_ahead: int


_BEGINNING: Final = Anchor(FIRST, 0, 0)

_s = standings.c
_a = rank_anchors.c


def place_of(table: Table) -> ColumnElement[Any]:
    """Return the place of a row, for comparisons with `bound`."""
    return tuple_(table.c.order_value, table.c.member)


def bound(name: str) -> ColumnElement[Any]:
    """Return a place that is bound as `<name>_order` and `<name>_member`."""
    order = bindparam(f"{name}_order", type_=standings.c.order_value.type)
    return tuple_(order, bindparam(f"{name}_member", type_=standings.c.member.type))


def bind(**places: BoardPlace) -> dict[str, Any]:
    """Return the values of the places that `bound` names."""
    return {
        f"{name}_{part}": value for name, place in places.items() for part, value in place._asdict().items()
    }


def in_window(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of the window that is bound as `board` and `window`."""
    return (table.c.board == bindparam("board"), table.c.window == bindparam("window"))


_STANDING_THERE = (*in_window(standings), _s.score.is_not(None))
_IN_SPAN = (
    *_STANDING_THERE,
    place_of(standings) >= bound("begin"),
    place_of(standings) < bound("end"),
)
_COUNT = Query(select(func.count()).select_from(standings).where(*_IN_SPAN))
_COUNT_GROUPS = Query(
    select(func.count()).select_from(
        select(
            (_s.order_value // bindparam("slots", type_=_s.order_value.type)).label("score"),
            func.substr(_s.member, 1, bindparam("digits", type_=Integer())).label("ties"),
        )
        .where(*_IN_SPAN)
        .distinct()
        .subquery()
    )
)
_NTH = Query(
    select(_s.order_value, _s.member)
    .where(*_STANDING_THERE, place_of(standings) >= bound("begin"))
    .order_by(_s.order_value, _s.member)
    .limit(1)
    .offset(bindparam("skipped"))
)
_OWN = Query(
    select(_s.order_value, _s.member, _s.submission_id).where(
        *_STANDING_THERE, _s.player == bindparam("player")
    )
)


def _rows() -> Select[Any]:
    return (
        select(_s.player, _s.order_value, _s.member, _s.submission_id, func.coalesce(players.c.name, ""))
        .select_from(standings.outerjoin(players, players.c.player == _s.player))
        .where(*_STANDING_THERE)
        .limit(bindparam("count"))
    )


_FROM = Query(_rows().where(place_of(standings) >= bound("begin")).order_by(_s.order_value, _s.member))
_BEFORE = Query(
    _rows().where(place_of(standings) < bound("end")).order_by(_s.order_value.desc(), _s.member.desc())
)

_anchors = (
    select(_a.order_value, _a.member, _a.ahead, _a.groups_ahead)
    .join_from(
        rank_anchors,
        anchored_windows,
        (anchored_windows.c.board == _a.board) & (anchored_windows.c.window == _a.window),
    )
    .where(*in_window(rank_anchors), anchored_windows.c.rule == bindparam("rule"))
    .limit(1)
)
_ANCHOR_AT = Query(
    _anchors.where(place_of(rank_anchors) <= bound("at")).order_by(_a.order_value.desc(), _a.member.desc())
)
_ANCHOR_BY_RANK = Query(
    _anchors.where(_a.ahead <= bindparam("most")).order_by(
        _a.ahead.desc(), _a.order_value.desc(), _a.member.desc()
    )
)
_moved = select(cast(func.coalesce(func.sum(rank_moves.c.delta), 0), BigInteger())).where(
    *in_window(rank_moves),
    rank_moves.c.series == bindparam("series"),
    place_of(rank_moves) < bound("at"),
)
_MOVED = Query(_moved)
_CAME = Query(_moved.where(rank_moves.c.delta > 0))


def anchor_rule(ranking: Ranking) -> str:
    """Return the rule of anchors: the rule that places standings, and whether groups are counted."""
    return f"{ranking.rule}:{int(ranking.keeps_groups)}"


@dataclass(frozen=True, slots=True)
class RankedWindow:
    """One window inside a transaction. Counts are exact; `standings.anchors` states their cost."""

    tx: Transaction
    ranking: Ranking
    window: str

    async def total(self) -> int:
        """Return the number of standings."""
        return await self.ahead(LAST)

    async def ahead(self, place: BoardPlace) -> int:
        """Return how many standings are ahead of a place."""
        anchor = await self.anchor_at(place)
        return await self.ahead_of(anchor) + await self._count(_COUNT, anchor.place, place)

    async def ahead_of(self, anchor: Anchor) -> int:
        """Return how many standings are ahead of an anchor now."""
        return anchor.ahead + await self.moved(anchor, ENTRIES)

    async def groups_ahead(self, begin: BoardPlace) -> int:
        """Return how many groups begin ahead of a group's begin."""
        anchor = await self.anchor_at(begin)
        known = anchor.groups_ahead + await self.moved(anchor, GROUPS)
        # The group around an anchor begins ahead of it, so the anchor counts it already.
        unknown = max(anchor.place, self.ranking.group_end(self.window, anchor.place))
        slots = {"slots": self.ranking.orders_per_score(self.window), "digits": self.ranking.tie_digits}
        return known + await self._count(_COUNT_GROUPS, unknown, begin, **slots)

    async def moved(self, anchor: Anchor, series: int) -> int:
        """Return by how much the noted moves change the number ahead of an anchor."""
        if anchor is _BEGINNING:
            return 0
        return await self._number(_MOVED, series=series, **bind(at=anchor.place))

    async def anchor_at(self, place: BoardPlace) -> Anchor:
        """Return the last anchor that is not behind a place."""
        return await self._anchor(_ANCHOR_AT, **bind(at=place))

    async def nth(self, begin: BoardPlace, skipped: int) -> BoardPlace | None:
        """Return the place of the standing that comes `skipped` after the first one from `begin` on."""
        rows = await self.tx.rows(_NTH, **self._named, **bind(begin=begin), skipped=skipped)
        return BoardPlace(*rows[0]) if rows else None

    async def page(self, first: int, count: int, kind: RankKind) -> Slice:
        """Return `count` standings from position `first`."""
        begin = await self.place_at(first)
        rows = await self._rows_from(begin, count) if begin else ()
        return await self._slice(rows, first, kind)

    async def own(self, player: str) -> tuple[BoardPlace, str] | None:
        """Return a player's place and the submission that it is from, None without a standing."""
        rows = await self.tx.rows(_OWN, **self._named, player=player)
        return next(((BoardPlace(order, member), submission) for order, member, submission in rows), None)

    async def around(self, player: str, radius: int, kind: RankKind) -> Slice:
        """Return a player's standing with `radius` others on each side; none for a player without one."""
        found = await self.own(player)
        if found is None:
            return Slice(await self.total(), 0, 0, ())
        own, _ = found
        rows = [*await self._rows_before(own, radius), *await self._rows_from(own, radius + 1)]
        return await self._slice(rows, await self.ahead(BoardPlace(*rows[0][1:3])), kind)

    async def behind(self, place: BoardPlace, count: int, kind: RankKind) -> Slice:
        """Return at most `count` standings from a place on, whether or not one is at it."""
        return await self._slice(await self._rows_from(place, count), await self.ahead(place), kind)

    async def before(self, place: BoardPlace, count: int, kind: RankKind) -> Slice:
        """Return at most `count` standings right ahead of a place."""
        rows = await self._rows_before(place, count)
        return await self._slice(rows, await self.ahead(place) - len(rows), kind)

    async def _slice(self, rows: Sequence[Row], first: int, kind: RankKind) -> Slice:
        lead = await self._lead(kind, first, BoardPlace(*rows[0][1:3])) if rows else 0
        return Slice(await self.total(), first, lead, rows)

    async def _rows_from(self, begin: BoardPlace, count: int) -> list[Row]:
        return await self.tx.rows(_FROM, **self._named, **bind(begin=begin), count=count)

    async def _rows_before(self, end: BoardPlace, count: int) -> list[Row]:
        rows = await self.tx.rows(_BEFORE, **self._named, **bind(end=end), count=count) if count else []
        return rows[::-1]

    async def _lead(self, kind: RankKind, first: int, place: BoardPlace) -> int:
        """Return the rank of the entry at position `first`."""
        return first + 1 if kind is RankKind.UNIQUE else await self.rank(place, kind)

    async def rank(self, place: BoardPlace, kind: RankKind) -> int:
        """Return the rank of the entry at a place."""
        if kind is RankKind.UNIQUE:
            return 1 + await self.ahead(place)
        begin = self.ranking.group_begin(self.window, place)
        return 1 + await (self.groups_ahead(begin) if kind is RankKind.DENSE else self.ahead(begin))

    async def place_at(self, position: int) -> BoardPlace | None:
        """Return the place at a position (from 0)."""
        [place] = await self.places_at([position])
        return place

    async def places_at(self, positions: Sequence[int]) -> list[BoardPlace | None]:
        """Return the place at each of these positions (from 0)."""
        # Newcomers can have moved an anchor back by no more than their number.
        came = await self._number(_CAME, series=ENTRIES, **bind(at=LAST))
        return [await self._place_at(position, came) for position in positions]

    async def _place_at(self, position: int, came: int) -> BoardPlace | None:
        anchor = await self._anchor(_ANCHOR_BY_RANK, most=max(0, position - came))
        return await self.nth(anchor.place, position - await self.ahead_of(anchor))

    async def _anchor(self, query: Query, **values: Any) -> Anchor:
        rows = await self.tx.rows(query, **self._named, rule=anchor_rule(self.ranking), **values)
        if not rows:
            return _BEGINNING
        order, member, ahead, groups_ahead = rows[0]
        return Anchor(BoardPlace(order, member), ahead, groups_ahead)

    async def _count(self, query: Query, begin: BoardPlace, end: BoardPlace, **values: Any) -> int:
        if begin >= end:
            return 0
        return await self._number(query, **bind(begin=begin, end=end), **values)

    async def _number(self, query: Query, **values: Any) -> int:
        [[number]] = await self.tx.rows(query, **self._named, **values)
        return int(number)

    @property
    def _named(self) -> dict[str, str]:
        return {"board": self.ranking.policy.board, "window": self.window}


def page_of(ranking: Ranking, window: str, first: int, count: int, kind: RankKind) -> Operation[Slice]:
    """Return `count` standings of a window from 0-based position `first`, with ranks of this kind."""

    async def work(tx: Transaction) -> Slice:
        return await RankedWindow(tx, ranking, window).page(first, count, kind)

    return work


def around_of(ranking: Ranking, window: str, player: str, radius: int, kind: RankKind) -> Operation[Slice]:
    """Return a player's standing in a window with `radius` others on each side, or none without one."""

    async def work(tx: Transaction) -> Slice:
        return await RankedWindow(tx, ranking, window).around(player, radius, kind)

    return work


def behind_of(
    ranking: Ranking, window: str, place: BoardPlace, count: int, kind: RankKind
) -> Operation[Slice]:
    """Return at most `count` standings of a window from a place on, whether or not one is at it."""

    async def work(tx: Transaction) -> Slice:
        return await RankedWindow(tx, ranking, window).behind(place, count, kind)

    return work


def before_of(
    ranking: Ranking, window: str, place: BoardPlace, count: int, kind: RankKind
) -> Operation[Slice]:
    """Return at most `count` standings of a window right ahead of a place."""

    async def work(tx: Transaction) -> Slice:
        return await RankedWindow(tx, ranking, window).before(place, count, kind)

    return work


def just_behind(place: BoardPlace) -> BoardPlace:
    """Return the least place behind this one that an entry can have: members are printable."""
    return BoardPlace(place.order, f"{place.member}\x01")
