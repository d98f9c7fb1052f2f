"""Looks for work in the ledger, without those that can find nothing new."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.runtime.clock import Clock
from policies.windows import FOREVER_MS

T = TypeVar("T")

LOOK_MS: Final = 1_000
"""Time after which a look is repeated at the latest: what Redis brings is not committed."""

REST_MS: Final = 5_000
"""The same for looks that find nothing but what a commit has brought."""


class Looks:
    """The looks of one duty: one that found nothing is not repeated before anything is committed.

    `version` is the ledger's, which costs less than any read. A look is repeated anyway after `longest_ms`,
    and when the next work comes due: `next_due` tells that time, and None for never.
    """

    def __init__(
        self,
        version: Callable[[], Awaitable[object]],
        *,
        longest_ms: int,
        clock: Clock,
        next_due: Callable[[], Awaitable[int | None]] | None = None,
    ) -> None:
        self._ask_version = version
        self._longest_ms = longest_ms
        self._clock = clock
        self._next_due = next_due
        self._version: object = None
        self._looked_at_ms = self._until_ms = 0
        self._nothing: object = None

    async def at(self, look: Callable[[], Awaitable[T]]) -> T:
        """Return what a look finds, or what the last one did if that was nothing and still is.

        Raises LedgerUnavailable, and what the look raises.
        """
        now_ms = self._clock()
        version = await self._ask_version()  # before the look, which may miss what is committed meanwhile
        # A clock that was put back says nothing of how long ago the last look was.
        if version == self._version and self._looked_at_ms <= now_ms < self._until_ms:
            nothing: T = self._nothing  # type: ignore[assignment]
            return nothing
        self._version = None
        found = await look()
        if not found:
            due_at_ms = await self._next_due() if self._next_due else None
            self._until_ms = min(now_ms + self._longest_ms, FOREVER_MS if due_at_ms is None else due_at_ms)
            self._version, self._looked_at_ms, self._nothing = version, now_ms, found
        return found
