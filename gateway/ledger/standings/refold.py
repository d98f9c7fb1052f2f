"""Folds standings anew from promoted submissions: what a change of a board's operator, order or windows asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import bindparam, select

from gateway.ledger.index_pages import names_of, standings_of
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import is_in, submissions
from gateway.ledger.standings.folds import put_standing, read_slot, standing_in
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
    """Players with promoted submissions on a board, in order, after such a player."""

    async def work(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.rows(_PLAYERS, board=board, after=after, count=count)]

    return work


def refold(ranking: Ranking, players: Sequence[str], windows: Sequence[Window]) -> Operation[int]:
    """How many standings of these players in these windows were not what their submissions come to; now they are.

    A standing that changes takes the number of the newest event: no event is its cause, and none that is under way to
    the index may undo it. Doing it again changes nothing.
    """

    async def work(tx: Transaction) -> int:
        wanted = {window.name: players for window in windows}
        stored = {
            (each.window, each.player): each for each in await standings_of(ranking.policy.board, wanted)(tx)
        }
        names = await names_of(players)(tx)
        newest = await newest_seq()(tx)
        changed = 0
        for player in players:
            for window in windows:
                due = await standing_in(tx, ranking, player, window, names.get(player, ""), seq=newest)
                held = stored.get((window.name, player))
                if held is None and due.score is None:
                    continue
                if held is None or replace(held, seq=newest) != due:
                    stored_in = await read_slot(tx, ranking, window.name, player)
                    await put_standing(tx, ranking, due, stored_in)
                    changed += 1
        return changed

    return work
