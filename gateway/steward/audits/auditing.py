"""Draws, once a day, which of a board's verified runs are simulated again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from heapq import heappush, heappushpop
from typing import Final
from zoneinfo import ZoneInfo

from gateway.ledger.judgement import audits
from gateway.ledger.judgement.audits import VerifiedSubmission
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from policies.model import Policy
from policies.replaying import AuditRules

SLICE: Final = 10_000
"""Events that are looked through at once."""

NOTED_AT_ONCE: Final = 256
"""Audits that are noted in one transaction, which holds the writer for some milliseconds."""

SEED_BITS: Final = 62
"""What both ledgers keep in an integer."""

_log = logger()


class Sample:
    """A uniform sample of what it is offered: everything has the same chance, whatever was offered before.

    Each gets a number from [0, 1): those below `share` are taken, and the lowest `least` whatever theirs are.
    """

    def __init__(self, audit: AuditRules, chance: random.Random) -> None:
        self._audit = audit
        self._chance = chance
        self._taken: list[tuple[float, VerifiedSubmission]] = []
        self._lowest: list[tuple[float, VerifiedSubmission]] = []

    def offer(self, run: VerifiedSubmission) -> None:
        """Gives one its number."""
        number = self._chance.random()
        if number < self._audit.share:
            self._taken.append((number, run))
        elif len(self._lowest) < self._audit.least:
            heappush(self._lowest, (-number, run))  # heapq has the least first: here the greatest number
        elif self._lowest:
            heappushpop(self._lowest, (-number, run))

    @property
    def drawn(self) -> list[VerifiedSubmission]:
        """What is in the sample."""
        missing = max(0, self._audit.least - len(self._taken))
        others = sorted(self._lowest, reverse=True)[:missing]
        return [run for _, run in [*self._taken, *others]]


class AuditDraw:
    """Draws the audits of one board, once for each day; what was promoted since the draw before is drawn from.

    The day, the range of events and a seed are written down first. Then the sample is the same for whoever draws it, and
    is noted in slices, between which others write; a restart goes on where the ledger says. (It draws anew by the policy
    of then: if the audit's share was changed meanwhile, some may be missing.)
    """

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
        noted = await self._finish()
        draw = await self._ledger.read(audits.draw_of(board))
        if draw.day is None or draw.day < day:
            seed = self._chance.getrandbits(SEED_BITS)
            if await self._ledger.write(audits.claim(board, day=day, seed=seed)):
                noted += await self._finish()
        if noted:
            _log.info(Event.AUDIT_DRAWN, board=board, count=noted)
        return noted

    async def _finish(self) -> int:
        """How many audits were noted of the draw that was begun, until it was done or another steward went on with it."""
        draw = await self._ledger.read(audits.draw_of(self._policy.board))
        if draw.is_done:
            return 0
        drawn, noted = await self._drawn(draw), 0
        while not draw.is_done:
            some = drawn[draw.noted : draw.noted + NOTED_AT_ONCE]
            is_last = draw.noted + len(some) >= len(drawn)
            noting = audits.note(draw, some, is_last=is_last, now_ms=self._clock())
            new = await self._ledger.write(noting)
            if new is None:
                break
            noted += new
            draw = await self._ledger.read(audits.draw_of(self._policy.board))
        return noted

    async def _drawn(self, draw: audits.Draw) -> list[VerifiedSubmission]:
        sample = Sample(self._policy.verification.audit, random.Random(draw.seed))  # noqa: S311 - nothing to guess
        for after in range(draw.after, draw.upto, SLICE):
            upto = min(after + SLICE, draw.upto)
            for each in await self._ledger.read(audits.verified_between(draw.board, after=after, upto=upto)):
                sample.offer(each)
        return sample.drawn

    def _day(self) -> int:
        """The day, as an ordinal in the board's time zone, on which its time for audits came last."""
        zone = ZoneInfo(self._policy.time_zone)
        now = datetime.fromtimestamp(self._clock() / 1000, UTC).astimezone(zone)
        hour, minute = map(int, self._policy.verification.audit.at.split(":"))
        is_before = (now.hour, now.minute) < (hour, minute)
        return (now.date() - timedelta(days=is_before)).toordinal()
