"""The steward's part in bans: it lifts those whose time is over, and has submissions follow what is left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.bans import Ban
from gateway.ledger.moderation.selections import EVERYWHERE
from gateway.runtime.clock import Clock
from gateway.settlement.bans import BanFollower, lift
from gateway.steward.failures import Failures
from gateway.steward.fair_turns import FairTurns

ACTOR: Final = "steward"
"""The actor of the end of a ban whose time is over."""

TAKEN: Final = 16
"""Bans of one turn: those whose time is over, and those that have work, each of which has one slice."""


class BanKeeper:
    """Ends bans and finishes their work. Its methods raise LedgerUnavailable."""

    def __init__(
        self, ledger: Ledger, index: Index, catalogue: Catalogue, failures: Failures, *, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._follower = BanFollower(ledger, index, catalogue)
        turns = partial(FairTurns[Ban], clock=clock, in_slice=TAKEN, names=_names_of)
        self._ends, self._at_work = turns("lift_bans", failures), turns("keep_bans", failures)

    async def step(self) -> int:
        """Lift the bans whose time is over, let a slice follow each of some bans, and return how many."""
        ended = await self._ends.step(self._ended_after, self._lift)
        return ended + await self._at_work.step(self._at_work_after, self._follow)

    async def next_due(self) -> int | None:
        """Return when the next ban has work, None if none will."""
        return await self._ledger.read(bans.next_due(now_ms=self._clock()))

    async def _ended_after(self, last: Ban | None) -> Sequence[Ban]:
        return await self._ledger.read(bans.bans_to_end(last, now_ms=self._clock(), count=TAKEN))

    async def _at_work_after(self, last: Ban | None) -> Sequence[Ban]:
        return await self._ledger.read(bans.bans_at_work(last, now_ms=self._clock(), count=TAKEN))

    async def _lift(self, ended: Sequence[Ban]) -> None:
        for ban in ended:
            await self._ledger.write(lift(ban.ban_id, by=ACTOR, now_ms=self._clock()))

    async def _follow(self, at_work: Sequence[Ban]) -> None:
        for ban in at_work:
            await self._follower.step(ban.ban_id, now_ms=self._clock())


def _names_of(ban: Ban) -> tuple[str, str]:
    return ban.ban_id, ban.scope or EVERYWHERE
