"""Counts of refused claims by player and by address, which limit whoever probes for the bounds of a board."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.scripts import Script
from policies.errors import IndexUnavailable
from policies.limits import RefusalLimits

Value = TypeVar("Value")

MEMORY_MS: Final = 30 * 86_400_000
"""Time for which submissions of a limited player or address carry a finding (`validators.probing`)."""


class RefusalCounts:
    """The refusal counts of one board. Fails limited: without Redis this process counts."""

    def __init__(
        self, client: Redis, board: str, most: RefusalLimits, *, local: LocalCounts | None = None
    ) -> None:
        self._script = Script(client, "count_refusal")
        self._board = board
        self._most = most
        self._local = local or LocalCounts()

    def keys_of(self, player: str, address: str) -> Sequence[str]:
        """Return the keys of the counts of a player and of an address."""
        return (
            keys.refusals(self._board, "player", player),
            keys.refusals(self._board, "address", address),
        )

    async def note(self, player: str, address: str) -> bool:
        """Count one refusal. Return whether either now has too many."""
        most = (self._most.player, self._most.address)
        try:
            limited = await self._script(
                self.keys_of(player, address), [self._most.window_s * 1000, MEMORY_MS, *most]
            )
        except IndexUnavailable:
            names = self.keys_of(player, address)
            window_ms = self._most.window_s * 1000
            limited = [
                self._local.note(name, count, window_ms) for name, count in zip(names, most, strict=True)
            ]
        return any(limited)

    def wait_ms(self, player: str, address: str) -> int:
        """Return how long this process alone would still limit them (ms)."""
        return max(map(self._local.wait_ms, self.keys_of(player, address)))


class LocalCounts:
    """Counts within windows in this process, for the most recent `size` names, by monotonic time."""

    def __init__(self, size: int = 65_536, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._size = size
        self._now_ns = now_ns
        self._counted: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._limited: OrderedDict[str, int] = OrderedDict()

    def note(self, name: str, most: int, window_ms: int) -> bool:
        """Count one. Return whether there were `most` within the window."""
        now_ms = self._now_ns() // 1_000_000
        count, until_ms = self._counted.pop(name, (0, 0))
        if now_ms >= until_ms:
            count, until_ms = 0, now_ms + window_ms
        if count + 1 >= most:
            self._put(self._limited, name, now_ms + window_ms)
            return True
        self._put(self._counted, name, (count + 1, until_ms))
        return False

    def wait_ms(self, name: str) -> int:
        """Return how long `name` is still limited (ms)."""
        return max(0, self._limited.get(name, 0) - self._now_ns() // 1_000_000)

    def _put(self, counts: OrderedDict[str, Value], name: str, value: Value) -> None:
        counts[name] = value
        counts.move_to_end(name)
        while len(counts) > self._size:
            counts.popitem(last=False)
