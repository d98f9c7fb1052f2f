"""Draws, once a day, a sample of a board's verified runs to simulate again."""

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
"""Promotions read at once."""

NOTED_AT_ONCE: Final = 256
"""Audits noted in one transaction, which holds the writer for some milliseconds."""

SEED_BITS: Final = 62
"""Bits of a seed: both databases store as many in an integer."""

_log = logger()


class Sample:
    """A uniform sample of the runs it is offered: each has the same chance, whatever was offered before.

    Each run gets a number from [0, 1). The sample has all below `share`, and at least the `least` lowest
    ones.
    """

    def __init__(self, audit: AuditRules, chance: random.Random) -> None:
        self._audit = audit
        self._chance = chance
        self._taken: list[tuple[float, VerifiedSubmission]] = []
        self._lowest: list[tuple[float, VerifiedSubmission]] = []

    def offer(self, run: VerifiedSubmission) -> None:
        """Give a run its number and keep it if the number is low enough."""
        number = self._chance.random()
        if number < self._audit.share:
            self._taken.append((number, run))
        elif len(self._lowest) < self._audit.least:
            heappush(self._lowest, (-number, run))  # heapq pops the least, so here the greatest number
        elif self._lowest:
            heappushpop(self._lowest, (-number, run))

    @property
    def drawn(self) -> list[VerifiedSubmission]:
        """The runs in the sample."""
        missing = max(0, self._audit.least - len(self._taken))
        others = sorted(self._lowest, reverse=True)[:missing]
        return [run for _, run in [*self._taken, *others]]


def next_audit_ms(policy: Policy, after_ms: int) -> int:
    """Return the next time for audits of a board after a moment (Unix ms)."""
    zone = ZoneInfo(policy.time_zone)
    hour, minute = map(int, policy.verification.audit.at.split(":"))
    local = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone)
    at = local.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    while at.timestamp() * 1000 <= after_ms:
        at += timedelta(days=1)
    return int(at.timestamp() * 1000)


class AuditDraw:
    """Draws the audits of one board once a day, from the runs promoted since the previous draw.

    The day, the range of events and a seed are stored first, so every steward draws the same sample. It is
    noted in slices, so that others can write in between; after a restart it continues where the ledger says.
    (A restart draws by the policy of that moment: if the audit's share changed meanwhile, some runs may be
    missing.)
    """

    def __init__(
        self, ledger: Ledger, policy: Policy, *, clock: Clock, chance: random.Random | None = None
    ) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    async def step(self, *, first_after: int | None = None) -> int:
        """Draw what is due and return how many audits were noted.

        The first step ever draws from what came after event `first_after`; without it, from nothing.
        """
        board, day = self._policy.board, self._day()
        noted = await self._finish()
        draw = await self._ledger.read(audits.draw_of(board))
        if draw.day is None or draw.day < day:
            seed = self._chance.getrandbits(SEED_BITS)
            if await self._ledger.write(audits.claim(board, day=day, seed=seed, first_after=first_after)):
                noted += await self._finish()
        if noted:
            _log.info(Event.AUDIT_DRAWN, board=board, count=noted)
        return noted

    async def has_drawn(self, seq: int) -> bool:
        """Return whether everything up to event `seq` was drawn from."""
        draw = await self._ledger.read(audits.draw_of(self._policy.board))
        return draw.is_done and draw.upto >= seq

    async def _finish(self) -> int:
        """Note audits until the draw is done or another steward continues it, and return how many."""
        draw = await self._ledger.read(audits.draw_of(self._policy.board))
        if draw.is_done:
            return 0
        drawn, noted = await self._drawn(draw), 0
        while not draw.is_done:
            runs = drawn[draw.noted : draw.noted + NOTED_AT_ONCE]
            is_last = draw.noted + len(runs) >= len(drawn)
            new = await self._ledger.write(audits.note(draw, runs, is_last=is_last, now_ms=self._clock()))
            if new is None:
                break
            noted += new
            draw = await self._ledger.read(audits.draw_of(self._policy.board))
        return noted

    async def _drawn(self, draw: audits.Draw) -> list[VerifiedSubmission]:
        chance = random.Random(draw.seed)  # noqa: S311 - nothing to guess
        sample = Sample(self._policy.verification.audit, chance)
        after, is_last = draw.after, False
        while not is_last:
            span = {"after": after, "upto": draw.upto, "count": SLICE}
            page = await self._ledger.read(audits.verified_between(draw.board, **span))
            for after, run in page:  # noqa: B007 - the next page begins after the last event
                sample.offer(run)
            is_last = len(page) < SLICE
        return sample.drawn

    def _day(self) -> int:
        """Return the latest day whose time for audits has come in the board's time zone, as an ordinal."""
        zone = ZoneInfo(self._policy.time_zone)
        now = datetime.fromtimestamp(self._clock() / 1000, UTC).astimezone(zone)
        hour, minute = map(int, self._policy.verification.audit.at.split(":"))
        is_before = (now.hour, now.minute) < (hour, minute)
        return (now.date() - timedelta(days=is_before)).toordinal()
