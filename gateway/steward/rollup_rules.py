"""Folds rollups anew whose policy ranks or takes something else than the one under which they were folded."""

from __future__ import annotations

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_index import Index
from gateway.ledger.derived import log
from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.rollup_rules import RULES, number_of
from gateway.runtime.clock import Clock
from gateway.steward.archive.refold import refold_board
from gateway.steward.index.rebuild import Rebuilder
from policies.loader import Board


class RollupRules:
    """The duty to fold each rollup once under its rule, and to note the rule. Readers wait for the note."""

    def __init__(self, ledger: Ledger, index: Index, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._clock = clock
        self._is_done = False

    async def step(self) -> None:
        """Fold what is under another rule. It may be killed anywhere, and then begins again.

        Raises LedgerUnavailable and IndexUnavailable.
        """
        if self._is_done:
            return
        noted = await self._ledger.read(log.positions(RULES))
        rollups = [board for board in self._catalogue.of_files.values() if board.policy.rollup]
        for rollup in rollups:
            if noted.get(rollup.name) != number_of(rollup.ranking):
                await self._fold(rollup)
        self._is_done = True

    async def _fold(self, rollup: Board) -> None:
        policy, clock = rollup.policy, self._clock
        family = self._catalogue.families.get(policy.rollup.family) if policy.rollup else None
        await refold_board(self._ledger, policy, clock=clock, tell=lambda _count: None, family=family)
        await Rebuilder(self._ledger, self._index.of(rollup), policy, clock=clock).rebuild()
        await self._ledger.write(log.move(RULES, number_of(rollup.ranking), rollup.name))
