"""Keeps rollups equal to the boards of their families, where one player's change does not tell all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.rollup_moves import borders_of
from gateway.ledger.standings.rollup_points import BEFORE_ALL, RollupChange, changes_due, drop_change
from gateway.runtime.clock import Clock
from gateway.settlement.rollups import follow_change, has_window
from gateway.settlement.settle import Projection, project
from gateway.steward.failures import Failures
from gateway.steward.fair_turns import FairTurns

SLICE: Final = 64
"""Windows of boards compared in one round, each in a commit of its own."""


class RollupKeeper:
    """Compares the first ranks of changed boards with the points given for them, and follows deletions."""

    def __init__(
        self, ledger: Ledger, index: Projection, catalogue: Catalogue, failures: Failures, *, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._clock = clock
        self._turns = FairTurns[RollupChange](
            "roll_up",
            failures,
            clock=clock,
            in_slice=SLICE,
            names=lambda change: ("", change.board),
            retry_ms=0,
        )
        self.next_due = self._turns.next_due

    async def step(self) -> int:
        """Compare a slice of what changed and return how many windows.

        The next slice follows it, so that boards which change all the time keep nobody waiting. Notes the
        failure of a single window. Raises LedgerUnavailable.
        """
        return await self._turns.step(self._due_after, self._follow)

    async def _due_after(self, last: RollupChange | None) -> Sequence[RollupChange]:
        return await self._ledger.read(changes_due(SLICE, after=last or BEFORE_ALL))

    async def _follow(self, changes: Sequence[RollupChange]) -> None:
        for change in changes:
            await self._follow_change(change)

    async def _follow_change(self, change: RollupChange) -> None:
        rollup = await self._catalogue.board(change.rollup)
        of = rollup.policy.rollup if rollup else None
        family = self._catalogue.families.get(of.family) if of else None
        if rollup is None or family is None or not has_window(rollup, change.window):
            await self._ledger.write(drop_change(change))  # its policy is gone, and nobody reads it
            return
        ranking = family.ranking_of(change.board)
        [wanted] = await self._ledger.read(borders_of(rollup.ranking, [(ranking, change.window)]))
        following = follow_change(rollup, ranking, change, wanted, at_ms=self._clock())
        changes = await self._ledger.write(following)
        if changes:
            await project(self._ledger, self._index, rollup, changes)
