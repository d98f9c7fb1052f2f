"""The banned players as an edge knows them, in memory, so that a lookup costs no query.

It decides what is refused and who sees themselves, and nothing else: whatever an edge lets through while it
does not know of a ban, settlement does not promote.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.bans import Ban, changed_after, is_shadow
from gateway.ledger.reads import ReadKind
from gateway.runtime.refreshing import refresh_for_ever
from gateway.runtime.unexpected import FaultPlace

REFRESH_S: Final = 1.0
"""Time between two reads of the ledger, and so the delay of a ban that another process began."""

PLAYERS: Final = 100_000
"""Banned players that an edge knows, those whose bans began last. Others are refused nothing."""

PAGE: Final = 1_000
"""Bans of one read."""


class BannedPlayers:
    """The bans that are in force. While the ledger cannot be read, those that were last read hold."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._bans: OrderedDict[str, dict[str, Ban]] = OrderedDict()
        self._seen = 0
        self._refreshing = asyncio.Lock()

    def open_ban(self, player: str, board: str, *, now_ms: int) -> Ban | None:
        """Return an open ban of a player on a board: of several, the one that ends last. None if over."""
        bans = [ban for ban in self._covering(player, board) if not ban.is_shadow]
        last = max(bans, key=_end_ms, default=None)
        return None if last is None or _end_ms(last) <= now_ms else last

    def is_shadow_banned(self, player: str, board: str) -> bool:
        """Return whether a player is banned on a board and must not notice."""
        bans = self._bans.get(player)
        return bans is not None and is_shadow(list(bans.values()), board)

    def has_shadow_ban(self, player: str) -> bool:
        """Return whether a player has a shadow ban anywhere."""
        bans = self._bans.get(player)
        return bans is not None and any(ban.is_shadow for ban in bans.values())

    def _covering(self, player: str, board: str) -> list[Ban]:
        bans = self._bans.get(player)
        return [ban for ban in bans.values() if ban.covers(board)] if bans else []

    async def refresh(self) -> None:
        """Read what has changed, one at a time: no older answer comes last. Raises LedgerUnavailable."""
        async with self._refreshing:
            while page := await self._ledger.read(changed_after(self._seen, count=PAGE), ReadKind.REQUESTS):
                for ban in page:
                    self._note(ban)
                self._seen = page[-1].changed_seq
                if len(page) < PAGE:
                    return

    def _note(self, ban: Ban) -> None:
        bans = self._bans.get(ban.player, {})
        if ban.is_in_force:
            bans[ban.ban_id] = replace(ban, note="")
            self._bans[ban.player] = bans
            self._bans.move_to_end(ban.player)
        else:
            bans.pop(ban.ban_id, None)
        if not bans:
            self._bans.pop(ban.player, None)
        if len(self._bans) > PLAYERS:
            self._bans.popitem(last=False)

    async def keep_fresh(self) -> None:
        """Read what has changed every REFRESH_S until cancelled."""
        await refresh_for_ever(self.refresh, REFRESH_S, part="bans", place=FaultPlace.BANS)


def _end_ms(ban: Ban) -> float:
    return float("inf") if ban.until_ms is None else ban.until_ms
