"""Where a player whom only bans keep out of an archived window would stand in it."""

from __future__ import annotations

from contextlib import suppress

from gateway.ledger.archive.frozen_policies import ranking_of
from gateway.ledger.archive.reading import archived_players
from gateway.ledger.standings.banned_folds import FoldWithoutBans, standing_without_bans
from gateway.ledger.transaction import Operation, Transaction
from policies.model import Policy
from policies.ranking import Ranking
from policies.windows import window_named


def archived_without_bans(
    today: Policy, window: str, player: str
) -> Operation[tuple[Ranking, FoldWithoutBans] | None]:
    """Fold what only bans revoke of a player in an archived window, by the policy that it was frozen under.

    None while the window's revision still has the player.
    """

    async def work(tx: Transaction) -> tuple[Ranking, FoldWithoutBans] | None:
        page = await archived_players(today.board, window, [player])(tx)
        if page is None or page.entries or not page.window.is_readable:
            return None
        ranking = ranking_of(page.window, today)
        with suppress(ValueError):  # of a kind of window that the board kept once
            fold = await standing_without_bans(ranking, player, window_named(ranking.policy, window))(tx)
            return ranking, fold
        return None

    return work
