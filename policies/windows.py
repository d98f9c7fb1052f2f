"""Which window a moment belongs to, and when that window begins and ends, by the calendar of a board."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from policies.model import Policy, WindowKind

FOREVER_MS = 2**53 - 1
"""End of the `alltime` window: later than any time we can name exactly."""

_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Window:
    """One span of time of a board: `alltime`, `daily:20261120`, `weekly:2026W47`, `monthly:202611`, `season:202609011000`.

    `begin_ms` belongs to it, `end_ms` does not; both Unix milliseconds.
    """

    kind: WindowKind
    name: str
    begin_ms: int
    end_ms: int

    @property
    def expires_at_ms(self) -> int | None:
        """When the index may forget it: one span after its end, so that the last one can still be read."""
        if self.kind is WindowKind.ALLTIME:
            return None
        return 2 * self.end_ms - self.begin_ms


_FORMS: Final = {
    WindowKind.DAILY: "%Y%m%d",
    WindowKind.WEEKLY: "%GW%V%u",
    WindowKind.MONTHLY: "%Y%m",
    WindowKind.SEASON: "%Y%m%d%H%M",
}
"""How a window is named after its beginning, for `strptime`; a week after its Monday."""


class Calendar:
    """The windows of a board: days, ISO 8601 weeks and months of its time zone, and its seasons.

    Each begins when its first local minute does, so a day on which clocks change has 23 or 25 hours.
    """

    def __init__(self, time_zone: str, season: str | None) -> None:
        self._zone = ZoneInfo(time_zone)
        self._season = season
        self._recent: dict[WindowKind, Window] = {}

    def at(self, kind: WindowKind, at_ms: int) -> Window:
        """The window of `kind` that holds the moment `at_ms`."""
        recent = self._recent.get(kind)
        if recent is None or not recent.begin_ms <= at_ms < recent.end_ms:
            recent = self._recent[kind] = self._at(kind, at_ms)
        return recent

    def named(self, name: str) -> Window:
        """The window that bears a name, as `weekly:2026W47`. Raises ValueError for a name that no window has."""
        kind, _, begin = name.partition(":")
        found = self._named(WindowKind(kind), begin)
        if found.name != name:  # strptime takes more spellings than one, and a season begins when it begins
            raise ValueError(f"no window is called {name!r}")
        return found

    def _named(self, kind: WindowKind, begin: str) -> Window:
        if kind is WindowKind.ALLTIME:
            return _ALLTIME
        if kind is WindowKind.SEASON and self._season is None:
            raise ValueError("the board has no seasons")
        suffix = "1" if kind is WindowKind.WEEKLY else ""
        try:
            return self._at(kind, self._ms(datetime.strptime(begin + suffix, _FORMS[kind])))  # noqa: DTZ007
        except OverflowError:
            raise ValueError("no calendar goes that far") from None

    def _at(self, kind: WindowKind, at_ms: int) -> Window:
        if kind is WindowKind.ALLTIME:
            return _ALLTIME
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self._zone)
        if kind is WindowKind.SEASON:
            return self._season_at(moment)
        day = moment.date()
        if kind is WindowKind.DAILY:
            return self._days(kind, f"daily:{day:%Y%m%d}", day, day + timedelta(days=1))
        if kind is WindowKind.WEEKLY:
            monday = day - timedelta(days=day.weekday())
            year, week, _ = day.isocalendar()
            return self._days(kind, f"weekly:{year:04d}W{week:02d}", monday, monday + timedelta(days=7))
        first = day.replace(day=1)
        following = (first + timedelta(days=32)).replace(day=1)
        return self._days(kind, f"monthly:{first:%Y%m}", first, following)

    def _season_at(self, moment: datetime) -> Window:
        if self._season is None:
            raise ValueError("the board has no seasons")
        minute = moment.replace(second=0, microsecond=0)
        begin = next(CronSim(self._season, minute + _MINUTE, reverse=True))
        end = next(CronSim(self._season, minute))
        return Window(
            WindowKind.SEASON, f"season:{begin:%Y%m%d%H%M}", _milliseconds(begin), _milliseconds(end)
        )

    def _days(self, kind: WindowKind, name: str, begin: date, end: date) -> Window:
        return Window(kind, name, self._ms(_midnight(begin)), self._ms(_midnight(end)))

    def _ms(self, local: datetime) -> int:
        return _milliseconds(local.replace(tzinfo=self._zone))


_ALLTIME: Final = Window(WindowKind.ALLTIME, "alltime", 0, FOREVER_MS)


def calendar_of(policy: Policy) -> Calendar:
    """The calendar that a policy states."""
    return _calendar(policy.time_zone, policy.season)


@lru_cache(maxsize=256)
def _calendar(time_zone: str, season: str | None) -> Calendar:
    return Calendar(time_zone, season)


def window_at(policy: Policy, kind: WindowKind, at_ms: int) -> Window:
    """The window of `kind` that holds the moment `at_ms`, on a board of this policy."""
    return calendar_of(policy).at(kind, at_ms)


def window_named(policy: Policy, name: str) -> Window:
    """The window of the board that bears a name. Raises ValueError for a name that no window has."""
    return calendar_of(policy).named(name)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - made local by `_ms`


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
