"""The steward's part in bans: it lifts those whose time is over, and has submissions follow what is left."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_index import Index
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import bans
from gateway.runtime.clock import Clock
from gateway.settlement.bans import BanFollower, lift

ACTOR: Final = "steward"
"""The actor of the end of a ban whose time is over."""

TAKEN: Final = 16
"""Bans of one turn: those whose time is over, and those that have work, each of which has one slice."""


class BanKeeper:
    """Ends bans and finishes their work. Its methods raise LedgerUnavailable."""

    def __init__(self, ledger: Ledger, index: Index, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._follower = BanFollower(ledger, index, catalogue)
        self._seen = 0

    async def step(self) -> int:
        """Lift the bans whose time is over, let a slice follow each of some bans, and return how many."""
        now_ms = self._clock()
        ended = await self._ledger.read(bans.bans_to_end(now_ms=now_ms, count=TAKEN))
        for ban in ended:
            await self._ledger.write(lift(ban.ban_id, by=ACTOR, now_ms=now_ms))
        at_work = await self._ledger.read(bans.bans_at_work(self._seen, count=TAKEN))
        # In turn, so that a ban with much work holds up no other.
        self._seen = at_work[-1].changed_seq if len(at_work) == TAKEN else 0
        for ban in at_work:
            await self._follower.step(ban.ban_id, now_ms=self._clock())
        return len(ended) + len(at_work)

    async def next_due(self) -> int | None:
        """Return when the next ban has work, None if none will."""
        return await self._ledger.read(bans.next_due())
