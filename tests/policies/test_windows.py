"""Windows: which one a moment is in, and that they tile time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import WindowKind
from policies.windows import window_at, window_named

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


@given(st.sampled_from(WindowKind), MOMENTS)
def test_a_window_is_found_by_its_name(kind, moment):
    """Every window has one name, and the name has one window."""
    window = window_at(kind, moment)
    assert window == window_named(window.name)


@pytest.mark.parametrize(
    "name",
    ["", "hourly", "alltime:", "daily", "daily:2026112", "daily:20261340", "weekly:2026W54", "weekly:2026-47",
     "monthly:202613", "monthly:2026011", "monthly:999912", "daily:00000101"],
)  # fmt: skip
def test_a_name_of_no_window_is_refused(name):
    """Neither another spelling nor a day that no calendar has."""
    with pytest.raises(ValueError, match=r"."):
        window_named(name)
