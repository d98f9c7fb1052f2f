"""Draws, once a day, which of a board's verified runs are simulated again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from heapq import heappush, heappushpop
from typing import Final
from zoneinfo import ZoneInfo

from gateway.clock import Clock
from gateway.ledger import audits
from gateway.ledger.ledger import Ledger
from gateway.telemetry import Event, logger
from policies.model import Policy
from policies.replaying import Audit

SLICE: Final = 10_000
"""Events that are looked through at once."""

_log = logger()


class Sample:
    """A uniform sample of what it is offered: everything has the same chance, whatever was offered before.

    Each gets a number from [0, 1): those below `share` are taken, and the lowest `least` whatever theirs are.
    """

    def __init__(self, audit: Audit, chance: random.Random) -> None:
        self._audit = audit
        self._chance = chance
        self._taken: list[tuple[float, str]] = []
        self._lowest: list[tuple[float, str]] = []

    def offer(self, submission_id: str) -> None:
        """Gives one its number."""
        number = self._chance.random()
        if number < self._audit.share:
            self._taken.append((number, submission_id))
        elif len(self._lowest) < self._audit.least:
            heappush(
                self._lowest, (-number, submission_id)
            )  # heapq has the least first: here the greatest number
        elif self._lowest:
            heappushpop(self._lowest, (-number, submission_id))

    @property
    def drawn(self) -> list[str]:
        """What is in the sample."""
        missing = max(0, self._audit.least - len(self._taken))
        others = sorted(self._lowest, reverse=True)[:missing]
        return [submission_id for _, submission_id in [*self._taken, *others]]


class AuditDraw:
    """Draws the audits of one board, once for each day; what was promoted since the draw before is drawn from."""

    def __init__(
        self, ledger: Ledger, policy: Policy, *, clock: Clock, chance: random.Random | None = None
    ) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    async def step(self) -> int:
        """How many audits were noted. The first step of all notes none: there is no day before it."""
        board, day = self._policy.board, self._day()
        drawn_on, after, head = await self._ledger.read(audits.drawn_until(board))
        if drawn_on is not None and drawn_on >= day:
            return 0
        sample = Sample(self._policy.verification.audit, self._chance)
        while drawn_on is not None and after < head:
            upto = min(after + SLICE, head)
            for each in await self._ledger.read(audits.verified_between(board, after=after, upto=upto)):
                sample.offer(each)
            after = upto
        noting = audits.draw(board, sample.drawn, day=day, upto=head, now_ms=self._clock())
        noted = await self._ledger.write(noting)
        if noted:
            _log.info(Event.AUDIT_DRAWN, board=board, count=noted)
        return noted

    def _day(self) -> int:
        """The day, as an ordinal in the board's time zone, on which its time for audits came last."""
        zone = ZoneInfo(self._policy.time_zone)
        now = datetime.fromtimestamp(self._clock() / 1000, UTC).astimezone(zone)
        hour, minute = map(int, self._policy.verification.audit.at.split(":"))
        is_before = (now.hour, now.minute) < (hour, minute)
        return (now.date() - timedelta(days=is_before)).toordinal()
