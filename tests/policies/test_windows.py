"""Windows: which one a moment is in, and that they tile time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.choices import WindowKind
from policies.model import Policy
from policies.windows import FOREVER_MS, Calendar, names_of_kind, window_at, window_named
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


SEASONS = st.sampled_from(
    ["30 2 * * *", "0 2 25 10 *", "30 0 * * 0", "0 0 1 */3 *", "15 1 */2 * *", "59 23 * * *"]
)
ALL_ZONES = st.sampled_from(sorted(available_timezones()))
WEEK_S = 7 * 86_400


@lru_cache(maxsize=64)
def changes_of_clocks(zone: str) -> list[int]:
    """The instants (Unix s) from 1990 to 2060 at which a zone's clocks were put forward or back, and the last week."""
    local, begin, end = ZoneInfo(zone), at(1990, 1, 1) // 1000, at(2060, 1, 1) // 1000

    def offset(at_s: int) -> timedelta | None:
        return datetime.fromtimestamp(at_s, UTC).astimezone(local).utcoffset()

    found = []
    for earliest in range(begin, end, WEEK_S):
        low, high = earliest, earliest + WEEK_S
        if offset(low) == offset(high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        found.append(high)
    return [*found, end]


@settings(deadline=None, max_examples=100)
@given(st.data(), ALL_ZONES, SEASONS, st.sampled_from(WindowKind))
def test_B09_every_instant_is_in_exactly_one_window(data, zone, season, kind):
    """In every zone, around every change of its clocks: hours that come twice, and hours that never come."""
    calendar = Calendar(zone, season)
    change_ms = data.draw(st.sampled_from(changes_of_clocks(zone))) * 1000
    moment = change_ms + data.draw(st.integers(-26 * 3_600_000, 26 * 3_600_000))
    window = Calendar(zone, season).at(kind, moment)
    assert window.begin_ms <= moment < window.end_ms
    assert window == calendar.named(window.name)
    if kind is WindowKind.ALLTIME:
        return
    for inside in (
        window.begin_ms,
        window.end_ms - 1,
        max(window.begin_ms, min(change_ms, window.end_ms - 1)),
    ):
        assert window == Calendar(zone, season).at(kind, inside)
    assert window.end_ms == Calendar(zone, season).at(kind, window.end_ms).begin_ms
    assert window.begin_ms == Calendar(zone, season).at(kind, window.begin_ms - 1).end_ms


@pytest.mark.parametrize(
    ("zone", "season", "kind", "moment", "name", "hours"),
    [
        (
            "Europe/Berlin",
            "30 2 * * *",
            WindowKind.SEASON,
            at(2026, 10, 25, 0, 45),
            "season:202610250230",
            25,
        ),
        (
            "Europe/Berlin",
            "30 2 * * *",
            WindowKind.SEASON,
            at(2026, 10, 25, 1, 15),
            "season:202610250230",
            25,
        ),
        (
            "Europe/Berlin",
            "30 2 * * *",
            WindowKind.SEASON,
            at(2026, 3, 29, 1, 0),
            "season:202603290230",
            23.5,
        ),
        (
            "Europe/Berlin",
            "30 2 * * *",
            WindowKind.SEASON,
            at(2026, 3, 29, 0, 59),
            "season:202603280230",
            23.5,
        ),
        (
            "Europe/Berlin",
            "37 2 * * *",
            WindowKind.SEASON,
            at(2026, 3, 29, 0, 59),
            "season:202603280237",
            1403 / 60,  # to the instant at which the clock goes from 02:00 to 03:00, within the second
        ),
        ("America/St_Johns", None, WindowKind.DAILY, at(2010, 11, 7, 2, 45), "daily:20101107", 25),
        ("Pacific/Apia", None, WindowKind.DAILY, at(2011, 12, 30, 10, 0), "daily:20111231", 24),
    ],
)
def test_B09_windows_where_clocks_change(zone, season, kind, moment, name, hours):
    """What had begun goes on through the hour that comes again; what begins in an hour that is not, begins after it."""
    window = Calendar(zone, season).at(kind, moment)
    assert (name, hours) == (window.name, (window.end_ms - window.begin_ms) / 3_600_000)


def test_B09_a_day_that_never_came_has_no_window():
    """Samoa went from the 29th to the 31st: nobody can ask for the 30th."""
    with pytest.raises(ValueError, match="no window"):
        Calendar("Pacific/Apia", None).named("daily:20111230")


@pytest.mark.parametrize("kind", WindowKind)
def test_the_names_of_a_kind_are_between_two_texts_and_no_others_are(kind: WindowKind):
    """So that a statement finds them in an index by name."""
    names = ["alltime", "daily:20261123", "weekly:2026W48", "monthly:202611", "season:202611010000"]
    first, beyond = names_of_kind(kind)
    assert [name for name in names if name.partition(":")[0] == kind.value] == [
        name for name in names if first <= name < beyond
    ]
