"""Looks for work in the ledger, without those that can find nothing new."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.runtime.clock import Clock

T = TypeVar("T")

LOOK_MS: Final = 1_000
"""Time after which a look is repeated at the latest, because time alone makes work due, or Redis does."""

REST_MS: Final = 5_000
"""The same for looks that find nothing but what a commit has brought."""


class Looks:
    """The looks of one duty: one that found nothing is not repeated before anything is committed.

    `version` is the ledger's, which costs less than any read. After `longest_ms` a look is repeated anyway.
    """

    def __init__(self, version: Callable[[], Awaitable[object]], *, longest_ms: int, clock: Clock) -> None:
        self._ask_version = version
        self._longest_ms = longest_ms
        self._clock = clock
        self._version: object = None
        self._looked_at_ms = 0
        self._nothing: object = None

    async def at(self, look: Callable[[], Awaitable[T]]) -> T:
        """Return what a look finds, or what the last one did if that was nothing and still is.

        Raises LedgerUnavailable, and what the look raises.
        """
        now_ms = self._clock()
        version = await self._ask_version()  # before the look, which may miss what is committed meanwhile
        # A clock that was put back says nothing of how long ago the last look was.
        if version == self._version and 0 <= now_ms - self._looked_at_ms < self._longest_ms:
            nothing: T = self._nothing  # type: ignore[assignment]
            return nothing
        self._version = None
        found = await look()
        if not found:
            self._version, self._looked_at_ms, self._nothing = version, now_ms, found
        return found
