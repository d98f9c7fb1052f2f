"""Deletes the recordings of refused and revoked runs once their boards no longer keep them."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.derived.log import position
from gateway.ledger.judgement.expiry import CONSUMER, UNDO_MS, end_recordings, endings_after
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import RECORDINGS_COLLECTED, Event, logger
from policies.model import Policy

SLICE: Final = 128
"""Events read in one step: their recordings end in one transaction, which other writes wait for."""

DAY_MS: Final = 86_400_000

_log = logger()


class Expirer:
    """Follows the log once for each retention that policies name, and ends recordings past it."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock
        named = {_life_ms(one.policy) for one in catalogue.policies.by_name.values()}
        lives_ms = {life_ms for life_ms in named if life_ms is not None}
        # What a moderator ended is kept until that cannot be undone, and so is looked at once more then.
        again = {UNDO_MS} if any(life_ms < UNDO_MS for life_ms in lives_ms) else set()
        self._lives_ms = sorted(lives_ms | again)

    async def step(self) -> int:
        """Read one slice for each retention.

        Return how many events were passed by those after which there are more, and 0 if none are left.
        """
        return sum([await self._pass(life_ms) for life_ms in self._lives_ms])

    def _kept_ms(self, board: str) -> int | None:
        policy = self._catalogue.policy_of(board)
        return None if policy is None else _life_ms(policy)

    async def _pass(self, kept_ms: int) -> int:
        consumer, now_ms = f"{CONSUMER}{kept_ms // DAY_MS}", self._clock()
        after = await self._ledger.read(position(consumer)) or 0
        events, upto, is_last = await self._ledger.read(endings_after(after, count=SLICE))
        cutoff_ms = now_ms - kept_ms
        # Up to the first young event: the position must not pass one whose recording is still kept.
        young = next((at for at, event in enumerate(events) if event.at_ms > cutoff_ms), len(events))
        passed = events[:young]
        if young < len(events):
            upto = passed[-1].seq if passed else after
            is_last = True
        if upto == after:
            return 0
        span = (after, upto)
        ended = await self._ledger.write(end_recordings(consumer, span, passed, self._kept_ms, now_ms=now_ms))
        if ended:
            RECORDINGS_COLLECTED.labels("expired").inc(ended)
            _log.info(Event.COLLECTED, expired=ended)
        return 0 if is_last else len(passed) or 1


def _life_ms(policy: Policy) -> int | None:
    """Return how long boards under a policy keep recordings of what was refused (ms), None for ever.

    It is never shorter than the time in which the player may appeal.
    """
    days = policy.recordings.refused_days
    return None if days is None else max(days, policy.moderation.appeal_days) * DAY_MS
