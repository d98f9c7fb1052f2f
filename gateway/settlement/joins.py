"""Joining a board and leaving it: standings are folded from what is promoted, so they hide and come back whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from gateway.index.board_index import BoardIndex
from gateway.ledger import index_pages
from gateway.ledger.archive.windows import mark_windows
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import is_joined, put_join
from gateway.ledger.queries import newest_seq
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.refold import refold
from gateway.ledger.transaction import Operation, Transaction
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.windows import window_named

SHOWN_AGAIN: Final = 3
"""How often a change is shown that the settlement of the newest event of all overtook on its way to the index."""


def set_joined(board: Board, player: str, *, joins_now: bool, actor: str, now_ms: int) -> Operation[bool]:
    """True if the player was not so before; the standings of all windows that are not over are then folded anew."""

    async def work(tx: Transaction) -> bool:
        if await is_joined(tx, board.name, player) == joins_now:
            return False
        await put_join(tx, board.name, player, joins_now=joins_now, actor=actor, at_ms=now_ms)
        held = await index_pages.live_standings(board.name, player, now_ms=now_ms)(tx)
        windows = [window_named(board.policy, each.window) for each in held]
        still_open = [window for window in windows if window.end_ms > now_ms]
        await refold(board.ranking, [player], still_open)(tx)
        await mark_windows(tx, board.name, [each.name for each in still_open], await newest_seq()(tx))
        return True

    return work


async def show_joined(ledger: Ledger, index: BoardIndex, player: str, *, now_ms: int) -> None:
    """Shows what now stands of the player; without Redis the steward does, when it compares."""
    with suppress(IndexUnavailable):
        for _ in range(SHOWN_AGAIN):
            live = index_pages.live_standings(index.board, player, now_ms=now_ms)
            if await index.show_again(player, await ledger.read(live, ReadKind.PLAYERS)):
                return
