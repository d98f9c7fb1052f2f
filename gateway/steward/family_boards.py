"""Closes boards of families whose time is over, counts their runs, and keeps what they are filtered by."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.family_terms import terms_of
from gateway.ledger.boards import filter_filling, plays
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.lookups import boards_to_close
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.lanes import LANES
from policies.opened_board import BoardState

SLICE: Final = 100
"""Boards closed in one round, of each 64 lanes; as many are one commit for a family."""

STEPS: Final = 50
"""Spans of the log counted in one round, so that what gathered in an outage is counted in several."""

FILLED_AT_ONCE: Final = 16
"""Slices of boards that are filled with their filters in one round."""

ACTOR: Final = "steward"


class BoardKeeper:
    """The duties of a deployment's families: ends of boards, and counts of their runs."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock

    async def close_due(self) -> int:
        """Close boards whose `closes_at_ms` has come and return how many. Raises LedgerUnavailable."""
        now_ms = self._clock()
        names: dict[str, list[str]] = defaultdict(list)
        for board in await self._ledger.read(boards_to_close(range(LANES), now_ms=now_ms, count=SLICE)):
            names[board.family].append(board.board)
        closed = 0
        for family, due in names.items():
            known = self._catalogue.families.get(family)
            terms = (
                terms_of(known) if known else FamilyTerms(family, "")
            )  # its policy is gone, its end is not
            work = set_states(terms, due, BoardState.CLOSED, actor=ACTOR, at_ms=now_ms, is_due=True)
            results = await self._ledger.write(work)
            closed += sum(result.outcome is BoardOutcome.CHANGED for result in results)
        return closed

    async def count_plays(self) -> int:
        """Count the runs of the last minute on boards of families.

        Return how many events were passed if there may be more of them, and 0 if all are counted.
        """
        passed = 0
        for _ in range(STEPS):
            count = await self._ledger.write(plays.count_plays())
            passed += count
            if count < plays.SPAN:
                return 0
        return passed

    async def fill_filters(self) -> int:
        """Make boards findable by the fields that policies declare now; return how many were looked at.

        Boards that were opened since are looked at once too: an edge may have opened them under the policy
        before.
        """
        families = self._catalogue.families
        fields = {name: tuple(family.policy.metadata_filters) for name, family in families.items()}
        due = await self._ledger.read(filter_filling.unfilled(fields))
        count = 0
        for name in due[:FILLED_AT_ONCE]:
            for _ in range(FILLED_AT_ONCE // len(due) or 1):
                filled = await self._ledger.write(filter_filling.fill_next(name, fields[name]))
                count += filled
                if filled < filter_filling.SLICE:
                    break
        return count
