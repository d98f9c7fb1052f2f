"""The boards whose policy ranks by another rule than the one under which their standings were folded.

A place of one rule says another score, or another order, under the next. So nobody goes by the places, ranks
and scores of such a board before it is folded anew.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.rules_in_force import noted_name, rule_in_force
from gateway.ledger.derived.folded_rules import RuleNotes, noted_rules, rule_changes
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from policies.errors import LedgerUnavailable
from policies.loader import Policies

LOOK_S: Final = 1.0
"""Age from which the notes are looked at again before they are trusted: one look-up, for all who ask."""

PATIENCE_S: Final = 0.25
"""Time that a question waits for a slow ledger before it goes by the notes that are known."""


class OutdatedBoards:
    """The boards whose standings are of another rule than the policy in force, by the ledger's notes."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, kind: ReadKind) -> None:
        self._ledger = ledger
        self._kind = kind
        self._catalogue = catalogue
        self._notes: RuleNotes | None = None
        self._looked_s = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._numbers: dict[str, int] = {}
        self._numbers_of: Policies | None = None

    async def learn(self) -> None:
        """Read the notes, so that readers are answered while the ledger is away. Raises LedgerUnavailable."""
        await self._read()

    async def has(self, board: str) -> bool:
        """Return whether a board is being folded anew, or waits for it. Raises LedgerUnavailable.

        A board whose policy is gone is no board at all. It says what was known last if the ledger does not
        answer now.
        """
        await self._look()
        return self._has_noted(board)

    def is_known_current(self, board: str) -> bool:
        """Return whether `has` would say no, and say it without waiting."""
        return not self._is_due() and not self._has_noted(board)

    def _has_noted(self, board: str) -> bool:
        name = noted_name(board)
        noted, number = self._notes.numbers.get(name) if self._notes else None, self._number(name)
        return noted is not None and number is not None and noted != number

    def _number(self, name: str) -> int | None:
        policies = self._catalogue.policies
        if policies is not self._numbers_of:
            self._numbers, self._numbers_of = {}, policies
        if name not in self._numbers:
            rule = rule_in_force(policies, name)
            if rule is None:
                return None
            self._numbers[name] = rule.number
        return self._numbers[name]

    def _is_due(self) -> bool:
        return time.monotonic() - self._looked_s >= LOOK_S

    async def _look(self) -> None:
        """Have notes of the last second, or go by the known ones."""
        if not self._is_due():
            return
        if self._looking is None:
            self._looking = asyncio.create_task(self._read())
            self._looking.add_done_callback(self._looked)
        try:
            async with asyncio.timeout(PATIENCE_S if self._notes else None):
                await asyncio.shield(self._looking)
        except (LedgerUnavailable, TimeoutError):
            if self._notes is None:
                raise
            self._looked_s = time.monotonic()  # for a second nobody waits again

    async def _read(self) -> None:
        began_s, notes = time.monotonic(), self._notes
        if notes is None or await self._ledger.read(rule_changes(), self._kind) != notes.changes:
            self._notes = await self._ledger.read(noted_rules(), self._kind)
        self._looked_s = began_s

    def _looked(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.exception()  # those who waited have it
