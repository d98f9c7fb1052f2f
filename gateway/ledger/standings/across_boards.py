"""Standings of one player across boards: those in a family, those on named boards, and their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import STANDS_IN_FAMILY, boards, standings
from gateway.ledger.standings.ranks import RankedWindow, Slice
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.choices import RankKind
from policies.opened_board import BoardState, names_of_family
from policies.ranking import Ranking

ENTRIES_LIMIT: Final = 25
"""Most entries that one read ranks. Each costs a few look-ups and the standings between two anchors."""

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


class PlayerStanding(NamedTuple):
    """A player's score on one board, and the submission that it is from."""

    board: str
    score: int
    submission_id: str


class StandingsPage(NamedTuple):
    """Standings by name of the board, and the board after which the next page begins, None after the last."""

    standings: list[PlayerStanding]
    next: str | None


class RankRequest(NamedTuple):
    """A request for a player's entry in a window of a board, with its rank of this kind."""

    ranking: Ranking
    window: str
    kind: RankKind


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
        for _ in range(SPANS):
            span = {"after": last, "beyond": beyond, "count": SPAN}
            rows = await tx.rows(_OF_PLAYER, player=player, window=window, **span)
            for *facts, state in rows:
                if len(page) == count:
                    return StandingsPage(page, last)
                last = facts[0]
                if state != BoardState.DELETED.value:
                    page.append(PlayerStanding(*facts))
            if len(rows) < SPAN:
                return StandingsPage(page, None)
        return StandingsPage(page, last)

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


def ranks_of(player: str, wanted: Sequence[RankRequest]) -> Operation[list[Slice]]:
    """Return a player's entry, alone in its slice, for each request in order; an empty slice without one.

    All are of one moment. Raises ValueError for more than ENTRIES_LIMIT.
    """
    if len(wanted) > ENTRIES_LIMIT:
        raise ValueError(f"{len(wanted)} entries are more than {ENTRIES_LIMIT}")

    async def work(tx: Transaction) -> list[Slice]:
        return [
            await RankedWindow(tx, request.ranking, request.window).around(player, 0, request.kind)
            for request in wanted
        ]

    return work
