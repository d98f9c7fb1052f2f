"""The duty that puts cases in order: it assesses how much harm each could do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.judgement import promotion_impact
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.cases import UnassessedCase, assess_cases, unassessed_cases
from gateway.runtime.clock import Clock
from gateway.steward.failures import Failures
from gateway.steward.fair_turns import FairTurns

SLICE: Final = 64
"""Cases of one look."""


class CaseKeeper:
    """Assesses new cases. Nobody holds a commit up for it: what counts then is read beside the writer."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, failures: Failures, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._turns = FairTurns[UnassessedCase](
            "assess_cases",
            failures,
            clock=clock,
            in_slice=SLICE,
            names=lambda case: (case.submission_id, case.board),
            together=SLICE,
        )
        self.next_due = self._turns.next_due

    async def assess(self) -> int:
        """Assess new cases and return how many. Those of boards without a policy do no harm."""
        return await self._turns.step(
            lambda last: self._ledger.read(unassessed_cases(last, count=SLICE)), self._assess
        )

    async def _assess(self, cases: Sequence[UnassessedCase]) -> None:
        boards = await self._catalogue.boards({case.board for case in cases})
        rankings = {name: board.ranking for name, board in boards.items()}
        tops = {name: board.policy.verification.top for name, board in boards.items()}
        harms = await self._ledger.read(promotion_impact.harms_of(cases, rankings, tops, with_replays=True))
        targets_s = {name: board.policy.moderation.target_s for name, board in boards.items()}
        targets_ms = {name: target_s * 1000 for name, target_s in targets_s.items() if target_s}
        await self._ledger.write(assess_cases(cases, harms, targets_ms))
