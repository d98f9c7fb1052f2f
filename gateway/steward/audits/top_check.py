"""Sees to it that nothing stays in the top of a board without having been verified."""

from __future__ import annotations

from gateway.ledger.judgement import sampling
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from policies.model import Policy
from policies.windows import calendar_of


class TopCheck:
    """Puts up for verification what came into the top of a board's windows by others' leaving it.

    It looks at the windows of now. What comes into the top of one that is over, by a revocation, is a moderator's.
    """

    def __init__(self, ledger: Ledger, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock

    async def step(self) -> int:
        """How many submissions were put up; none on a board without a replay.

        Where the share is 1 it may have been lower before, and what was spared then may rise now.
        """
        policy = self._policy
        if policy.replay is None:
            return 0
        now_ms, put_up = self._clock(), 0
        for kind in policy.windows:
            window = calendar_of(policy).at(kind, now_ms)
            found = await self._ledger.read(
                sampling.sampled_in_top(policy.board, window.name, policy.verification.top)
            )
            if found:
                put_up += await self._ledger.write(sampling.put_up(found, now_ms=now_ms))
        return put_up
