"""How many claims of a player, and of an address, were refused: who feels for the limits of a board is limited."""

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
"""How long it is remembered of whom there were too many: their submissions say so (`validators.probing`)."""


class RefusalCounts:
    """The refusals of one board. Fails limited: without Redis this process counts."""

    def __init__(self, client: Redis, board: str, most: RefusalLimits) -> None:
        self._script = Script(client, "count_refusal")
        self._board = board
        self._most = most
        self._local = LocalCounts(most.window_s * 1000)

    def keys_of(self, player: str, address: str) -> Sequence[str]:
        """Where the refusals of a player and of an address are counted."""
        return (
            keys.refusals(self._board, "player", player),
            keys.refusals(self._board, "address", address),
        )

    async def note(self, player: str, address: str) -> bool:
        """Counts one; True if either has had too many now."""
        most = (self._most.player, self._most.address)
        try:
            limited = await self._script(
                self.keys_of(player, address), [self._most.window_s * 1000, MEMORY_MS, *most]
            )
        except IndexUnavailable:
            whose = self.keys_of(player, address)
            limited = [self._local.note(who, count) for who, count in zip(whose, most, strict=True)]
        return any(limited)

    def wait_ms(self, player: str, address: str) -> int:
        """How long this process alone would still limit them."""
        return max(map(self._local.wait_ms, self.keys_of(player, address)))


class LocalCounts:
    """Counts within a window (ms) in this process's memory, of the most recent `size` names, by the monotonic clock."""

    def __init__(
        self, window_ms: int, size: int = 65_536, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._window_ms = window_ms
        self._size = size
        self._now_ns = now_ns
        self._counted: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._limited: OrderedDict[str, int] = OrderedDict()

    def note(self, who: str, most: int) -> bool:
        """Counts one; True if there were `most` within the window."""
        now_ms = self._now_ns() // 1_000_000
        count, until_ms = self._counted.pop(who, (0, 0))
        if now_ms >= until_ms:
            count, until_ms = 0, now_ms + self._window_ms
        if count + 1 >= most:
            self._put(self._limited, who, now_ms + self._window_ms)
            return True
        self._put(self._counted, who, (count + 1, until_ms))
        return False

    def wait_ms(self, who: str) -> int:
        """How long `who` is still limited."""
        return max(0, self._limited.get(who, 0) - self._now_ns() // 1_000_000)

    def _put(self, counts: OrderedDict[str, Value], who: str, value: Value) -> None:
        counts[who] = value
        counts.move_to_end(who)
        while len(counts) > self._size:
            counts.popitem(last=False)
