"""Joining and leaving a board. A return restores all standings, since they are folded from promoted runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from gateway.index.board_index import BoardIndex
from gateway.ledger import index_pages
from gateway.ledger.archive.windows import mark_windows
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import is_joined, load_join, put_join
from gateway.ledger.players.merges import MERGE, Merge
from gateway.ledger.queries import newest_seq
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.refold import refold
from gateway.ledger.transaction import Operation, Transaction
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.windows import window_named

PROJECTIONS: Final = 3
"""Attempts to project a join, each of which a newer settlement may overtake."""


def set_joined(board: Board, player: str, *, joins_now: bool, actor: str, now_ms: int) -> Operation[bool]:
    """Set whether a player has joined, and fold their open windows anew. Return False if nothing changed."""

    async def work(tx: Transaction) -> bool:
        if await is_joined(tx, board.name, player) == joins_now:
            return False
        await put_join(tx, board.name, player, joins_now=joins_now, actor=actor, at_ms=now_ms)
        standings = await index_pages.live_standings(board.name, player, now_ms=now_ms)(tx)
        windows = [window_named(board.policy, standing.window) for standing in standings]
        still_open = [window for window in windows if window.end_ms > now_ms]
        await refold(board.ranking, [player], still_open)(tx)
        await mark_windows(tx, board.name, [window.name for window in still_open], await newest_seq()(tx))
        return True

    return work


async def carry_join(tx: Transaction, board: Board, merge: Merge, *, now_ms: int) -> None:
    """Have the target of a merge join a board on which its source is, and leave it once the merge is undone.

    Who joined or left by themselves stays as they are. The target was on the board since the source was.
    """
    actor = f"{MERGE}:{merge.merge_id}"
    source = await load_join(tx, board.name, merge.source)
    target = await load_join(tx, board.name, merge.target)
    if merge.is_in_force and source and source.is_joined and target is None:
        await put_join(tx, board.name, merge.target, joins_now=True, actor=actor, at_ms=source.at_ms)
    elif not merge.is_in_force and target and target.is_joined and target.actor == actor:
        await put_join(tx, board.name, merge.target, joins_now=False, actor=actor, at_ms=now_ms)


async def show_joined(ledger: Ledger, index: BoardIndex, player: str, *, now_ms: int) -> None:
    """Project the player's standings. Without Redis, the steward's comparison does it later."""
    with suppress(IndexUnavailable):
        for _ in range(PROJECTIONS):
            live = index_pages.live_standings(index.board, player, now_ms=now_ms)
            if await index.show_again(player, await ledger.read(live, ReadKind.PLAYERS)):
                return
