"""A clock that tests can set: real time plus an offset."""

from __future__ import annotations

from gateway.runtime.clock import wall_clock


class ShiftedClock:
    def __init__(self) -> None:
        self.offset_ms = 0
        self._stopped_ms: int | None = None

    def __call__(self) -> int:
        return (wall_clock() if self._stopped_ms is None else self._stopped_ms) + self.offset_ms

    def stop(self) -> None:
        """From now on it goes on by what it is shifted, and not by the time that a busy machine takes."""
        self._stopped_ms = wall_clock()

    def shift(self, seconds: float) -> None:
        self.offset_ms += int(seconds * 1000)
