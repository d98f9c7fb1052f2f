"""Hands to ban players with, on a ledger in memory or on a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.ledger.moderation.bans import Ban
from gateway.settlement.bans import BanFollower, begin, lift
from policies.loader import Board
from tests.support.ledger import NOON_MS

MODERATOR = "moderator:mia"


def a_ban(
    ban_id: str, player: str, scope: str = "", *, until_ms: int | None = None, is_shadow: bool = False
) -> Ban:
    return Ban(ban_id, player, scope, is_shadow, "cheating", "a note", "no", MODERATOR, NOON_MS, until_ms)


class Boards:
    """What a catalogue tells of some boards."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._boards = boards

    async def boards(self, names: Iterable[str]) -> Mapping[str, Board]:
        return {name: self._boards[name] for name in names if name in self._boards}


class Bench:
    """Who bans on a ledger, and has all submissions follow."""

    def __init__(self, ledger: Any, boards: Mapping[str, Board], index: Any) -> None:
        self.ledger = ledger
        catalogue: Any = Boards(boards)
        self.follower = BanFollower(ledger, index, catalogue)

    async def ban(self, ban: Ban, *, at_ms: int = NOON_MS + 2) -> Ban:
        await self.ledger.write(begin(ban))
        return await self.settled(ban.ban_id, at_ms)

    async def unban(self, ban_id: str, *, at_ms: int = NOON_MS + 3) -> Ban:
        await self.ledger.write(lift(ban_id, by=MODERATOR, now_ms=at_ms))
        return await self.settled(ban_id, at_ms)

    async def settled(self, ban_id: str, at_ms: int) -> Ban:
        return await self.follower.follow(ban_id, now_ms=at_ms, slices=10_000)
