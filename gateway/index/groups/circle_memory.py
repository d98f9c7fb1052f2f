"""How much of Redis the circles of one process take: so many bytes in all, and so many circles of one player."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

MOST_BYTES: Final = 64 * 2**20
"""Bytes of circles that one process has Redis keep at a time."""

MOST_OF_ONE: Final = 4
"""Circles of one player that are kept at a time: a reader looks at one window, or at a few."""

BYTES_EACH: Final = 320
"""What one player of a circle takes: measured 182 with ids of 20 characters, more with long ones."""


class _StoredCircle(NamedTuple):
    until_s: float
    key: str
    player: str
    size: int


class CircleMemory:
    """The circles that this process has made and that are there still, by their keys."""

    def __init__(self, life_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._life_s = life_s
        self._clock = clock
        self._kept: deque[_StoredCircle] = deque()
        self._keys: set[str] = set()
        self._of_player: Counter[str] = Counter()
        self._bytes = 0

    def takes(self, key: str, player: str, players: int) -> bool:
        """True if the circle is there, or may be made: it is counted from now on."""
        self._let_go()
        size = BYTES_EACH * players
        if key in self._keys:
            return True
        if self._bytes + size > MOST_BYTES or self._of_player[player] >= MOST_OF_ONE:
            return False
        self._kept.append(_StoredCircle(self._clock() + self._life_s, key, player, size))
        self._keys.add(key)
        self._of_player[player] += 1
        self._bytes += size
        return True

    def _let_go(self) -> None:
        now_s = self._clock()
        while self._kept and self._kept[0].until_s <= now_s:
            gone = self._kept.popleft()
            self._keys.discard(gone.key)
            self._bytes -= gone.size
            self._of_player[gone.player] -= 1
            if not self._of_player[gone.player]:
                del self._of_player[gone.player]
