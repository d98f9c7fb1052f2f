"""Keeps rollups equal to the boards of their families, where one player's change does not tell all of it."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.rollup_moves import borders_of
from gateway.ledger.standings.rollup_points import BEFORE_ALL, RollupChange, changes_due, drop_change
from gateway.runtime.clock import Clock
from gateway.settlement.rollups import follow_change, has_window
from gateway.settlement.settle import Projection, project
from gateway.steward.failures import Failures
from policies.errors import LeaseLost, LedgerUnavailable

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
        self._failures = failures
        self._clock = clock
        self._last = BEFORE_ALL
        self._is_due = False
        self._failing: set[str] = set()
        self._failed: set[str] = set()

    async def step(self) -> int:
        """Compare a slice of what changed and return how many windows.

        The next slice follows it, so that boards which change all the time keep nobody waiting. Notes the
        failure of a single window. Raises LedgerUnavailable.
        """
        due = await self._ledger.read(changes_due(SLICE, after=self._last))
        if not due and self._last != BEFORE_ALL:
            self._end_round()
            due = await self._ledger.read(changes_due(SLICE))
        self._is_due = bool(due)
        self._last = due[-1] if len(due) == SLICE else BEFORE_ALL
        followed = sum([await self._has_followed(change) for change in due])
        if self._last == BEFORE_ALL:
            self._end_round()
        return followed

    async def next_due(self) -> int | None:
        """Return when the next windows are due: now if the last step had any, which may have failed."""
        return self._clock() if self._is_due else None

    def _end_round(self) -> None:
        """Clear the failures of boards of which no window failed since the last time."""
        for board in self._failing - self._failed:
            self._failures.clear("roll_up", board)
        self._failing, self._failed = self._failed, set()

    async def _has_followed(self, change: RollupChange) -> bool:
        try:
            await self._follow(change)
        except (LedgerUnavailable, LeaseLost):
            raise
        except Exception as error:  # noqa: BLE001 - a window's failure must not stop the others
            self._failures.note("roll_up", change.board, error)
            self._failed.add(change.board)
            return False
        return True

    async def _follow(self, change: RollupChange) -> None:
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
