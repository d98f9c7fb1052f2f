"""The duty that puts cases in order: it assesses how much harm each could do."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.judgement import promotion_impact
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.cases import assess_cases, unassessed_cases

SLICE: Final = 64
"""Cases of one look."""


class CaseKeeper:
    """Assesses new cases. Nobody holds a commit up for it: what counts then is read beside the writer."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue) -> None:
        self._ledger = ledger
        self._catalogue = catalogue

    async def assess(self) -> int:
        """Assess new cases and return how many. Those of boards without a policy do no harm."""
        cases = await self._ledger.read(unassessed_cases(count=SLICE))
        if cases:
            boards = await self._catalogue.boards({case.board for case in cases})
            rankings = {name: board.ranking for name, board in boards.items()}
            tops = {name: board.policy.verification.top for name, board in boards.items()}
            harms = await self._ledger.read(
                promotion_impact.harms_of(cases, rankings, tops, with_replays=True)
            )
            await self._ledger.write(assess_cases(cases, harms))
        return len(cases)
