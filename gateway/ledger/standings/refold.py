"""Folds standings anew from promoted submissions, after a change of operator, order or windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import bindparam, select

from gateway.ledger.index_pages import names_of, standings_of
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import is_in, submissions
from gateway.ledger.standings.folds import standing_in
from gateway.ledger.standings.slots import put_standing, read_slot
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import Ranking
from policies.vocabulary import State
from policies.windows import Window

_s = submissions.c

_PLAYERS = Query(
    select(_s.player)
    .distinct()
    .where(is_in(State.PROMOTED), _s.board == bindparam("board"), _s.player > bindparam("after"))
    .order_by(_s.player)
    .limit(bindparam("count"))
)


def promoted_players(board: str, *, after: str, count: int) -> Operation[list[str]]:
    """Return the next players with promoted submissions on a board after a player, in order."""

    async def work(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.rows(_PLAYERS, board=board, after=after, count=count)]

    return work


def refold(ranking: Ranking, players: Sequence[str], windows: Sequence[Window]) -> Operation[int]:
    """Fold these players' standings in these windows anew and return how many changed."""

    async def work(tx: Transaction) -> int:
        wanted = {window.name: players for window in windows}
        stored = {
            (standing.window, standing.player): standing
            for standing in await standings_of(ranking.policy.board, wanted)(tx)
        }
        names = await names_of(players)(tx)
        # No event is the cause, so changes take the newest number: no event on its way undoes them.
        newest = await newest_seq()(tx)
        changed = 0
        for player in players:
            for window in windows:
                folded = await standing_in(tx, ranking, player, window, names.get(player, ""), seq=newest)
                before = stored.get((window.name, player))
                if before is None and folded.score is None:
                    continue
                if before is None or replace(before, seq=newest) != folded:
                    slot = await read_slot(tx, ranking, window.name, player)
                    await put_standing(tx, ranking, folded, slot)
                    changed += 1
        return changed

    return work
