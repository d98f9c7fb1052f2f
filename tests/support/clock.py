"""A clock that tests can set: real time plus an offset."""

from __future__ import annotations

from typing import Final

from gateway.runtime.clock import wall_clock

DAY_MS: Final = 86_400_000
MARGIN_MS: Final = 900_000


class ShiftedClock:
    def __init__(self) -> None:
        self.offset_ms = 0
        self._stopped_ms: int | None = None

    def __call__(self) -> int:
        return (wall_clock() if self._stopped_ms is None else self._stopped_ms) + self.offset_ms

    def stop(self) -> None:
        """From now on it goes on by what it is shifted, and not by the time that a busy machine takes."""
        self._stopped_ms = wall_clock()

    def leave_midnight(self) -> None:
        """Go on to a quarter past, if a day has just begun or is about to end: what a test does is of one day then."""
        since_ms = (self() + MARGIN_MS) % DAY_MS
        if since_ms < 2 * MARGIN_MS:
            self.offset_ms += 2 * MARGIN_MS - since_ms

    def shift(self, seconds: float) -> None:
        self.offset_ms += round(seconds * 1000)  # 1.001 * 1000 is less than 1001
