"""The clock that tests set."""

from __future__ import annotations

import pytest

from tests.support import clock as it
from tests.support.clock import ShiftedClock

MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("minute", "expected"), [(-16, -16), (-15, 15), (-1, 15), (0, 15), (14, 15), (15, 15), (720, 720)]
)
def test_a_test_can_leave_the_time_around_midnight(
    minute: int, expected: int, monkeypatch: pytest.MonkeyPatch
):
    """What was sent five minutes ago was sent today then, whenever the tests run."""
    monkeypatch.setattr(it, "wall_clock", lambda: 20_000 * it.DAY_MS + minute * MINUTE_MS)
    clock = ShiftedClock()
    clock.leave_midnight()
    assert 20_000 * it.DAY_MS + expected * MINUTE_MS == clock()


def test_a_test_goes_on_by_whole_milliseconds():
    """Though as many seconds may come to a little less than they are."""
    clock = ShiftedClock()
    for ms in (1001, -1001, 2**20 + 1, -(2**20) - 1):
        clock.offset_ms = 0
        clock.shift(ms / 1000)
        assert ms == clock.offset_ms
