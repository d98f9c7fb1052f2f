"""Ensures that no run stays at the top of a board without having been verified."""

from __future__ import annotations

from gateway.ledger.judgement import sampling
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from policies.model import Policy
from policies.windows import calendar_of


class TopCheck:
    """Queues unverified runs for verification once they rise into the top of a board's current windows.

    A run rises without a submission of its own when others leave. Windows that are over are left to
    moderators.
    """

    def __init__(self, ledger: Ledger, policy: Policy, *, clock: Clock) -> None:
        self._ledger = ledger
        self._policy = policy
        self._clock = clock

    async def step(self) -> int:
        """Queue unverified runs and return how many were new; 0 on a board without a replay."""
        policy = self._policy
        # Also with a share of 1: it may have been lower before, and runs that were spared then can rise now.
        if policy.replay is None:
            return 0
        now_ms, count = self._clock(), 0
        for kind in policy.windows:
            window = calendar_of(policy).at(kind, now_ms)
            unverified = await self._ledger.read(
                sampling.sampled_in_top(policy.board, window.name, policy.verification.top)
            )
            if unverified:
                count += await self._ledger.write(sampling.queue_rechecks(unverified, now_ms=now_ms))
        return count
