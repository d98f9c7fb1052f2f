"""Standings of one player across boards: those in a family, those on named boards, and their ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    bindparam,
    func,
    literal_column,
    select,
    text,
    tuple_,
)

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import BANNED, STANDS_IN_FAMILY, boards, standings, submissions
from gateway.ledger.standings.banned_folds import standing_without_bans
from gateway.ledger.standings.ranks import FIRST, RankedWindow
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import RankedStanding, RankRequest
from policies.choices import RankKind
from policies.opened_board import BoardState, names_of_family
from policies.ranking import BoardPlace
from policies.windows import window_named

BOARDS_LIMIT: Final = 100
"""Most boards on which one read ranks a player by counting each from its beginning."""

SMALL: Final = 250
"""Most standings of a window that is counted so: of a hundred, no more than of ten windows with anchors."""

ENTRIES_LIMIT: Final = 25
"""Most entries that one read ranks in any windows: each costs look-ups, and the standings between anchors."""

SPAN: Final = 128
"""Standings that one statement walks past."""

SPANS: Final = 8
"""Most spans of one page: a player may stand on any number of deleted boards, which no page shows."""

_s = standings.c

# A join would make the names of columns in STANDS_IN_FAMILY ambiguous.
_STATE: Final = select(boards.c.state).where(boards.c.board == _s.board).scalar_subquery()
_OF_PLAYER = Query(
    select(_s.board, _s.score, _s.submission_id, _STATE)
    .where(
        _s.player == bindparam("player"),
        _s.window == bindparam("window"),
        _s.board > bindparam("after"),
        _s.board < bindparam("beyond"),
        STANDS_IN_FAMILY,
    )
    .order_by(_s.board)
    .limit(bindparam("count"))
)
_ON_BOARDS = Query(
    select(_s.board, _s.score, _s.submission_id).where(
        is_listed(_s.board),
        _s.window == bindparam("window"),
        _s.player == bindparam("player"),
        _s.score.is_not(None),
    )
)

_IN_FAMILIES = Query(
    select(_s.board)
    .where(_s.player == bindparam("player"), STANDS_IN_FAMILY)
    .order_by(_s.window, _s.board)
    .limit(bindparam("count"))
)

_BANNED = Query(
    select(submissions.c.board)
    .where(
        submissions.c.player == bindparam("player"),
        submissions.c.board > bindparam("after"),
        submissions.c.board < bindparam("beyond"),
        text(BANNED),
    )
    .order_by(submissions.c.board)
    .limit(1)
)

_other = standings.alias("other")
_o = _other.c
_slots = bindparam("slots", type_=_o.order_value.type)
_digits = bindparam("digits", type_=Integer())
# As expressions of a member, without an affinity of their own: SQLite then searches by both parts of a place.
_PLACE: Final = tuple_(_s.order_value, _s.member.concat(literal_column("''")))
_GROUP_BEGIN: Final = tuple_((_s.order_value // _slots) * _slots, func.substr(_s.member, 1, _digits))
"""A player's own place, and `Ranking.group_begin` of it."""


def _others(bounds: ColumnElement[bool], *columns: Any) -> Select[Any]:
    """Return standings of the own one's window in the order of places, one more at most than are counted."""
    of_window = (_o.board == _s.board, _o.window == _s.window, _o.score.is_not(None))
    return select(*columns).where(*of_window, bounds).limit(bindparam("most"))


def _ahead_of(place: ColumnElement[Any], *columns: Any) -> Select[Any]:
    return _others(tuple_(_o.order_value, _o.member) < place, *columns)


def _number(counted: Select[Any]) -> Any:
    return select(func.count()).select_from(counted.correlate(standings).subquery()).scalar_subquery()


def _ranked(ahead: Select[Any]) -> Select[Any]:
    """Return a player's place on listed boards, and how many are there and ahead of it, up to `most`."""
    everybody = _others(_o.order_value >= FIRST.order, literal_column("1"))
    numbers = (_number(everybody), _number(ahead))
    return select(_s.board, _s.order_value, _s.member, _s.submission_id, *numbers).where(
        is_listed(_s.board),
        _s.window == bindparam("window"),
        _s.player == bindparam("player"),
        _s.score.is_not(None),
    )


_ties_ahead = _ahead_of(_GROUP_BEGIN, _o.order_value, _o.member).correlate(standings).subquery()
_RANKED: Final = {
    RankKind.UNIQUE: Query(_ranked(_ahead_of(_PLACE, literal_column("1")))),
    RankKind.SPARSE: Query(_ranked(_ahead_of(_GROUP_BEGIN, literal_column("1")))),
    RankKind.DENSE: Query(
        _ranked(
            select(
                (_ties_ahead.c.order_value // _slots).label("score"),
                func.substr(_ties_ahead.c.member, 1, _digits).label("ties"),
            ).distinct()
        )
    ),
}


class PlayerStanding(NamedTuple):
    """A player's score on one board, and the submission that it is from."""

    board: str
    score: int
    submission_id: str


class StandingsPage(NamedTuple):
    """Standings by name of the board, and the board after which the next page begins, None after the last."""

    standings: list[PlayerStanding]
    next: str | None


class RanksWithoutBans(NamedTuple):
    """Standings that only bans take away, by name of the board, and how many runs were read for them."""

    by_board: dict[str, RankedStanding]
    runs: int


def standings_in_family(
    family: str, window: str, player: str, *, after: str = "", count: int
) -> Operation[StandingsPage]:
    """Return a player's standings in a window of a family's boards, by name of the board after `after`.

    It reads an index of the player's standings, however many boards the family has. Deleted boards are left
    out; a page that walked past SPAN x SPANS standings may be short, and says where to go on.
    """
    first, beyond = names_of_family(family)

    async def work(tx: Transaction) -> StandingsPage:
        page: list[PlayerStanding] = []
        last = max(after, first)
        width = min(SPAN, count + 1)  # there are few deleted boards to walk past, as a rule
        for _ in range(SPANS):
            span = {"after": last, "beyond": beyond, "count": width}
            rows = await tx.rows(_OF_PLAYER, player=player, window=window, **span)
            for *facts, state in rows:
                if len(page) == count:
                    return StandingsPage(page, last)
                last = facts[0]
                if state != BoardState.DELETED.value:
                    page.append(PlayerStanding(*facts))
            if len(rows) < width:
                return StandingsPage(page, None)
            width = SPAN
        return StandingsPage(page, last)

    return work


def boards_in_families(player: str, *, count: int) -> Operation[set[str]]:
    """Return the boards of families on which a player stands, by up to `count` of the standings."""

    async def work(tx: Transaction) -> set[str]:
        return {board for (board,) in await tx.rows(_IN_FAMILIES, player=player, count=count)}

    return work


def standings_on(player: str, wanted: Mapping[str, Sequence[str]]) -> Operation[dict[str, PlayerStanding]]:
    """Return a player's standings on the wanted boards, which are listed by window, by name of the board."""

    async def work(tx: Transaction) -> dict[str, PlayerStanding]:
        rows = [
            row
            for window, names in wanted.items()
            for row in await fetch_listed(tx, _ON_BOARDS, names, window=window, player=player)
        ]
        return {row[0]: PlayerStanding(*row) for row in rows}

    return work


def ranks_in_small_windows(
    player: str, wanted: Sequence[RankRequest]
) -> Operation[dict[str, RankedStanding | None]]:
    """Return a player's standing by name of the board, None in a window of more than SMALL standings.

    Nothing is returned of a board without one. All are of one moment. Raises ValueError for more than
    BOARDS_LIMIT boards.
    """
    _refuse_over(len(wanted), BOARDS_LIMIT)

    async def work(tx: Transaction) -> dict[str, RankedStanding | None]:
        found: dict[str, RankedStanding | None] = {}
        for (window, kind, ties), of_board in _alike(wanted):
            values = {"player": player, "window": window, "most": SMALL + 1}
            if ties:
                values |= {"slots": ties[0], "digits": ties[1]}
            rows = await fetch_listed(tx, _RANKED[kind], list(of_board), **values)
            for board, order, member, submission_id, total, ahead in rows:
                place = BoardPlace(order, member)
                found[board] = (
                    of_board[board].standing_at(
                        place, total=total, rank=ahead + 1, submission_id=submission_id
                    )
                    if total <= SMALL
                    else None
                )
        return found

    return work


def ranks_of(player: str, wanted: Sequence[RankRequest]) -> Operation[dict[str, RankedStanding]]:
    """Return a player's standing by name of the board, in windows of any size.

    Nothing is returned of a board without one. All are of one moment. Raises ValueError for more than
    ENTRIES_LIMIT.
    """
    _refuse_over(len(wanted), ENTRIES_LIMIT)

    async def work(tx: Transaction) -> dict[str, RankedStanding]:
        found: dict[str, RankedStanding] = {}
        for request in wanted:
            window = RankedWindow(tx, request.ranking, request.window)
            if own := await window.own(player):
                place, submission_id = own
                total, rank = await window.total(), await window.rank(place, request.kind)
                found[request.board] = request.standing_at(
                    place, total=total, rank=rank, submission_id=submission_id
                )
        return found

    return work


def standings_without_bans(player: str, wanted: Sequence[RankRequest]) -> Operation[RanksWithoutBans]:
    """Return, by name of the board, where a player whom only bans keep off would stand.

    All are of one moment. Raises ValueError for more than ENTRIES_LIMIT.
    """
    _refuse_over(len(wanted), ENTRIES_LIMIT)

    async def work(tx: Transaction) -> RanksWithoutBans:
        found: dict[str, RankedStanding] = {}
        runs = 0
        for request in wanted:
            span = window_named(request.ranking.policy, request.window)
            fold = await standing_without_bans(request.ranking, player, span)(tx)
            runs += fold.runs
            if (standing := fold.standing) is None:
                continue
            place = BoardPlace(standing.order, standing.member)
            window = RankedWindow(tx, request.ranking, request.window)
            total, rank = await window.total() + 1, await window.rank(place, request.kind)
            found[request.board] = request.standing_at(
                place, total=total, rank=rank, submission_id=standing.submission_id
            )
        return RanksWithoutBans(found, runs)

    return work


def banned_boards(player: str, family: str, *, after: str, count: int) -> Operation[list[str]]:
    """Return the next boards of a family after one on which bans revoke something of a player, by name."""
    first, beyond = names_of_family(family)

    async def work(tx: Transaction) -> list[str]:
        names: list[str] = []
        while len(names) < count:
            last = names[-1] if names else max(after, first)
            rows = await tx.rows(_BANNED, player=player, after=last, beyond=beyond)
            if not rows:
                break
            names.append(rows[0][0])
        return names

    return work


_Terms = tuple[str, RankKind, tuple[int, int] | None]
"""A window, a kind of rank, and the slots and digits that tell ties; unique ranks need neither."""


def _alike(wanted: Iterable[RankRequest]) -> Iterable[tuple[_Terms, dict[str, RankRequest]]]:
    """Return the requests that one statement answers, by board, with what it binds for them."""
    alike: dict[_Terms, dict[str, RankRequest]] = defaultdict(dict)
    for request in wanted:
        ranking, window = request.ranking, request.window
        ties = (ranking.orders_per_score(window), ranking.tie_digits)
        terms = (window, request.kind, None if request.kind is RankKind.UNIQUE else ties)
        alike[terms][request.board] = request
    return alike.items()


def _refuse_over(count: int, limit: int) -> None:
    if count > limit:
        raise ValueError(f"{count} entries are more than {limit}")
