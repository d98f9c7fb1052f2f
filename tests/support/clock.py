"""A clock that tests can set: real time plus an offset."""

from __future__ import annotations

from gateway.clock import wall_clock


class ShiftedClock:
    def __init__(self) -> None:
        self.offset_ms = 0

    def __call__(self) -> int:
        return wall_clock() + self.offset_ms

    def shift(self, seconds: float) -> None:
        self.offset_ms += int(seconds * 1000)
