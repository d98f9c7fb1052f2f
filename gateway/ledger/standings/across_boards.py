"""Standings across boards: a player's in a family, and entries on several boards in one read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.schema import STANDS_IN_FAMILY, standings
from gateway.ledger.standings.ranks import RankedEntry, RankedWindow
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.model import RankKind
from policies.opened_board import names_of_family
from policies.ranking import Ranking

ENTRIES_LIMIT: Final = 100
"""Most entries of one read. Each costs a few look-ups and the standings from one anchor to the next."""

_s = standings.c

_OF_PLAYER = Query(
    select(_s.board, _s.score, _s.achieved_at_ms, _s.submission_id)
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


class FamilyStanding(NamedTuple):
    """A player's standing on one board of a family. Its time is Unix milliseconds."""

    board: str
    score: int
    achieved_at_ms: int
    submission_id: str


def standings_in_family(
    family: str, window: str, player: str, *, after: str = "", count: int
) -> Operation[list[FamilyStanding]]:
    """Return a player's standings in a window of a family's boards, by name of the board after `after`.

    It reads `count` entries of an index of the player's standings, however many boards the family has.
    """
    first, beyond = names_of_family(family)

    async def work(tx: Transaction) -> list[FamilyStanding]:
        span = {"after": max(after, first), "beyond": beyond, "count": count}
        return [
            FamilyStanding(*row) for row in await tx.rows(_OF_PLAYER, player=player, window=window, **span)
        ]

    return work


def entries_of(
    wanted: Sequence[tuple[Ranking, str]], window: str, kind: RankKind
) -> Operation[list[RankedEntry | None]]:
    """Return the entry of each (ranking of a board, player) in a window, in order; None without a standing.

    All are of one moment. Raises ValueError for more than ENTRIES_LIMIT.
    """
    if len(wanted) > ENTRIES_LIMIT:
        raise ValueError(f"{len(wanted)} entries are more than {ENTRIES_LIMIT}")

    async def work(tx: Transaction) -> list[RankedEntry | None]:
        return [await RankedWindow(tx, ranking, window).entry_of(player, kind) for ranking, player in wanted]

    return work
