"""Bounds on the circles of one process in Redis: their total size, and the number per player."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

MOST_BYTES: Final = 64 * 2**20
"""Most bytes of circles that one process stores in Redis at a time."""

MOST_OF_ONE: Final = 4
"""Most circles of one player at a time: a reader looks at a few windows."""

BYTES_EACH: Final = 320
"""Bytes per player of a circle: measured 182 with ids of 20 characters, more with long ones."""


class _StoredCircle(NamedTuple):
    until_s: float
    key: str
    player: str
    size: int


class CircleMemory:
    """The circles that this process made and that have not expired, by key."""

    def __init__(self, life_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._life_s = life_s
        self._clock = clock
        self._circles: deque[_StoredCircle] = deque()
        self._keys: set[str] = set()
        self._of_player: Counter[str] = Counter()
        self._bytes = 0

    def takes(self, key: str, player: str, players: int) -> bool:
        """Return whether the circle exists or may be made. A new one is counted from now on."""
        self._forget_expired()
        size = BYTES_EACH * players
        if key in self._keys:
            return True
        if self._bytes + size > MOST_BYTES or self._of_player[player] >= MOST_OF_ONE:
            return False
        self._circles.append(_StoredCircle(self._clock() + self._life_s, key, player, size))
        self._keys.add(key)
        self._of_player[player] += 1
        self._bytes += size
        return True

    def _forget_expired(self) -> None:
        now_s = self._clock()
        while self._circles and self._circles[0].until_s <= now_s:
            expired = self._circles.popleft()
            self._keys.discard(expired.key)
            self._bytes -= expired.size
            self._of_player[expired.player] -= 1
            if not self._of_player[expired.player]:
                del self._of_player[expired.player]
