"""The steward's part in checks: draws them from what moderators decided, and ends those that nobody takes."""

from __future__ import annotations

import random
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.derived import log
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.checks import labels_behind, open_checks
from gateway.ledger.moderation.labels import DecisionLabel
from gateway.runtime.clock import Clock
from gateway.settlement.known_answers import CONSUMER, SETTLED_MS, draw_checks, end_checks

_ANY: Final = random.SystemRandom()


class CheckKeeper:
    """Draws and ends checks. Each decision is drawn from once, when it has stood for a day."""

    def __init__(
        self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock, chance: random.Random = _ANY
    ) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock
        self._chance = chance

    async def step(self) -> int:
        """End checks, draw from the next decisions, and return how many decisions were passed."""
        now_ms = self._clock()
        if await self._ledger.read(open_checks):
            await self._ledger.write(end_checks(now_ms=now_ms))
        after = await self._ledger.read(log.position(CONSUMER)) or 0
        ripe = []
        for label in await self._ledger.read(labels_behind(after)):
            if label.decided_at_ms > now_ms - SETTLED_MS:
                break
            ripe.append(label)
        if ripe:
            drawn = await self._drawn(ripe)
            await self._ledger.write(draw_checks(after, ripe[-1].seq, drawn, now_ms=now_ms))
        return len(ripe)

    async def _drawn(self, labels: list[DecisionLabel]) -> list[DecisionLabel]:
        boards = await self._catalogue.boards({label.board for label in labels})
        shares = {name: board.policy.moderation.check_share for name, board in boards.items()}
        return [label for label in labels if self._chance.random() < shares.get(label.board, 0.0)]
