"""The steward's part in merges and erasures of players: it finishes what others began, and what comes due."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.selections import EVERYWHERE
from gateway.ledger.players import merges
from gateway.ledger.players.merges import Merge
from gateway.ledger.privacy import erasures
from gateway.ledger.privacy.erasures import Erasure
from gateway.runtime.clock import Clock
from gateway.settlement.erasing import Eraser
from gateway.settlement.merges import MergeFollower
from gateway.steward.failures import Failures
from gateway.steward.fair_turns import FairTurns

TAKEN: Final = 16
"""Merges, and erasures, of one turn, each of which has one slice."""


class PlayerKeeper:
    """Goes on with merges and erasures. Its methods raise LedgerUnavailable."""

    def __init__(
        self, ledger: Ledger, index: Index, catalogue: Catalogue, failures: Failures, *, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._follower = MergeFollower(ledger, index, catalogue)
        self._eraser = Eraser(ledger, index, catalogue)
        turns = partial(FairTurns, clock=clock, in_slice=TAKEN)
        self._merges: FairTurns[Merge] = turns(
            "keep_merges", failures, names=lambda merge: (merge.merge_id, EVERYWHERE)
        )
        self._erasures: FairTurns[Erasure] = turns(
            "keep_erasures", failures, names=lambda erasure: (erasure.player, EVERYWHERE)
        )

    async def step(self) -> int:
        """Do a slice of each of some merges and erasures, and return how many had work."""
        self._had_work = 0
        await self._merges.step(self._merges_after, self._follow)
        await self._erasures.step(self._erasures_after, self._erase)
        return self._had_work

    async def _merges_after(self, last: Merge | None) -> Sequence[Merge]:
        return await self._ledger.read(merges.merges_at_work(last, now_ms=self._clock(), count=TAKEN))

    async def _erasures_after(self, last: Erasure | None) -> Sequence[Erasure]:
        return await self._ledger.read(erasures.erasures_due(last, now_ms=self._clock(), count=TAKEN))

    async def _follow(self, at_work: Sequence[Merge]) -> None:
        for merge in at_work:
            self._had_work += await self._follower.step(merge.merge_id, now_ms=self._clock())

    async def _erase(self, due: Sequence[Erasure]) -> None:
        for erasure in due:
            # One that only waits for late runs is no work: the duty rests then.
            self._had_work += await self._eraser.step(erasure.player, now_ms=self._clock())
