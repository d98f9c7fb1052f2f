"""Windows: which one a moment is in, and that they tile time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import WindowKind
from policies.windows import window_at

MOMENTS = st.integers(0, int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000))


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("kind", "moment", "name"),
    [
        (WindowKind.ALLTIME, at(2026, 11, 20), "alltime"),
        (WindowKind.DAILY, at(2026, 11, 20, 23, 59, 59), "daily:20261120"),
        (WindowKind.MONTHLY, at(2026, 12, 31, 23, 59, 59), "monthly:202612"),
        (WindowKind.WEEKLY, at(2026, 11, 20), "weekly:2026W47"),
        (WindowKind.WEEKLY, at(2027, 1, 1), "weekly:2026W53"),
        (WindowKind.WEEKLY, at(2024, 12, 30), "weekly:2025W01"),
    ],
)
def test_windows_have_their_names(kind, moment, name):
    """Weeks are ISO weeks, so the turn of the year belongs to the week that holds its Thursday."""
    assert name == window_at(kind, moment).name


@given(st.sampled_from(WindowKind), MOMENTS)
def test_windows_tile_time(kind, moment):
    """A moment is in its window, and the window's last and next moments are where they should be."""
    window = window_at(kind, moment)
    assert window.begin_ms <= moment < window.end_ms
    assert window == window_at(kind, window.begin_ms)
    if kind is not WindowKind.ALLTIME:
        assert window == window_at(kind, window.end_ms - 1)
        assert window.end_ms == window_at(kind, window.end_ms).begin_ms
        assert window.expires_at_ms == window.end_ms + (window.end_ms - window.begin_ms)
