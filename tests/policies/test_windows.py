"""Windows: which one a moment is in, and that they tile time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import Policy, WindowKind
from policies.windows import FOREVER_MS, Calendar, window_at, window_named
from tests.support.policies import a_policy

POLICY = Policy.model_validate(
    a_policy(windows=[kind.value for kind in WindowKind], season="0 10 1 */3 *", time_zone="UTC")
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Sao_Paulo", "Asia/Beirut",
     "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]
)  # fmt: skip
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
    assert name == window_at(POLICY, kind, moment).name


@given(ZONES, st.sampled_from(WindowKind), MOMENTS)
def test_windows_tile_time(zone, kind, moment):
    """A moment is in its window, and the window's last and next moments are where they should be, in any time zone."""
    calendar = Calendar(zone, "30 18 */10 * *")
    window = calendar.at(kind, moment)
    assert window.begin_ms <= moment < window.end_ms
    assert window == Calendar(zone, "30 18 */10 * *").at(kind, window.begin_ms)
    if kind is not WindowKind.ALLTIME:
        assert window == calendar.at(kind, window.end_ms - 1)
        assert window.end_ms == calendar.at(kind, window.end_ms).begin_ms
        assert window.expires_at_ms == window.end_ms + (window.end_ms - window.begin_ms)


@given(ZONES, st.sampled_from(WindowKind), MOMENTS)
def test_a_window_is_found_by_its_name(zone, kind, moment):
    """Every window has one name, and the name has one window."""
    calendar = Calendar(zone, "0 10 1 */3 *")
    window = calendar.at(kind, moment)
    assert window == calendar.named(window.name)


def test_a_day_of_a_board_is_the_day_of_its_time_zone():
    """Midnight is that of the board's place, and a day on which clocks change has 23 or 25 hours."""
    berlin = Calendar("Europe/Berlin", None)
    assert "daily:20261121" == berlin.at(WindowKind.DAILY, at(2026, 11, 20, 23)).name
    hours = [
        (window.end_ms - window.begin_ms) // 3_600_000
        for window in (berlin.named(f"daily:{day}") for day in ("20260329", "20261025", "20261120"))
    ]
    assert [23, 25, 24] == hours


def test_seasons_begin_when_their_cron_says():
    """In the board's time zone, with one name each; a name of no beginning, or of a board without seasons, is none."""
    quarters = Calendar("Europe/Berlin", "0 10 1 */3 *")
    season = quarters.at(WindowKind.SEASON, at(2026, 11, 20))
    assert ("season:202610011000", at(2026, 10, 1, 8), at(2027, 1, 1, 9)) == (
        season.name, season.begin_ms, season.end_ms
    )  # fmt: skip
    assert FOREVER_MS == quarters.at(WindowKind.ALLTIME, 0).end_ms
    for calendar, name in ((quarters, "season:202610011001"), (Calendar("UTC", None), season.name)):
        with pytest.raises(ValueError, match=r"."):
            calendar.named(name)


@pytest.mark.parametrize(
    "name",
    ["", "hourly", "alltime:", "daily", "daily:2026112", "daily:20261340", "weekly:2026W54", "weekly:2026-47",
     "monthly:202613", "monthly:2026011", "monthly:999912", "daily:00000101",
     "season:20261001", "season:202610011001"],
)  # fmt: skip
def test_a_name_of_no_window_is_refused(name):
    """Neither another spelling nor a day that no calendar has."""
    with pytest.raises(ValueError, match=r"."):
        window_named(POLICY, name)
