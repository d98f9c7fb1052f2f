"""Which window a moment belongs to, and when that window begins and ends, by the calendar of a board."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

    Each begins at the first instant at which the local clock shows its beginning or later, and ends as the next begins. So
    every instant is in exactly one window of a kind: an hour that comes twice is in the window that had begun before it
    came again, and a window that begins in an hour that does not exist begins with the hour after.
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
        suffix = "1" if kind is WindowKind.WEEKLY else ""
        try:
            local = datetime.strptime(begin + suffix, _FORMS[kind])  # noqa: DTZ007 - local time
            return self._at(kind, self._first_s(local) * 1000)
        except OverflowError:
            raise ValueError("no calendar goes that far") from None

    def _at(self, kind: WindowKind, at_ms: int) -> Window:
        if kind is WindowKind.ALLTIME:
            return _ALLTIME
        begin = self._begin(kind, self._local(at_ms // 1000))
        end = self._next(kind, begin)
        while (
            end_ms := self._first_s(end) * 1000
        ) <= at_ms:  # the clock showed the end before, and was put back
            begin, end = end, self._next(kind, end)
        return Window(kind, _name(kind, begin), self._first_s(begin) * 1000, end_ms)

    def _begin(self, kind: WindowKind, local: datetime) -> datetime:
        """The last beginning that is not after a local time."""
        if kind is WindowKind.SEASON:
            minute = local.replace(second=0, microsecond=0)
            return next(CronSim(self._cron(), minute + _MINUTE, reverse=True))
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        if kind is WindowKind.DAILY:
            return day
        return day - timedelta(days=day.weekday()) if kind is WindowKind.WEEKLY else day.replace(day=1)

    def _next(self, kind: WindowKind, begin: datetime) -> datetime:
        """The beginning after this one, in local time."""
        if kind is WindowKind.SEASON:
            return next(CronSim(self._cron(), begin))
        if kind is WindowKind.MONTHLY:
            return (begin + timedelta(days=32)).replace(day=1)
        return begin + timedelta(days=7 if kind is WindowKind.WEEKLY else 1)

    def _cron(self) -> str:
        if self._season is None:
            raise ValueError("the board has no seasons")
        return self._season

    def _local(self, at_s: int) -> datetime:
        """What the local clock shows at an instant (Unix s)."""
        return datetime.fromtimestamp(at_s, UTC).astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _first_s(self, local: datetime) -> int:
        """The first instant (Unix s) at which the local clock shows a time or a later one."""
        latest = int(local.replace(tzinfo=self._zone).timestamp())
        if self._local(latest) == local:
            return latest
        # The clock was put forward over it (PEP 495): by fold 1 it is before that moment, by fold 0 not.
        earliest = int(local.replace(tzinfo=self._zone, fold=1).timestamp())
        while latest - earliest > 1:
            middle = (earliest + latest) // 2
            earliest, latest = (middle, latest) if self._local(middle) < local else (earliest, middle)
        return latest


def _name(kind: WindowKind, begin: datetime) -> str:
    if kind is WindowKind.WEEKLY:
        year, week, _ = begin.isocalendar()
        return f"weekly:{year:04d}W{week:02d}"
    return f"{kind.value}:{begin:{_FORMS[kind]}}"


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
