"""The windows of a board: which one holds a moment, and when it begins and ends by the board's calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from policies.choices import WindowKind
from policies.model import Policy

FOREVER_MS = 2**53 - 1
"""End of the `alltime` window: the latest time that a double names exactly."""

_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Window:
    """A time span of a board, such as `alltime`, `daily:20261120`, `weekly:2026W47` or `season:202609011000`.

    `begin_ms` is inside, `end_ms` is outside; both are Unix milliseconds.
    """

    kind: WindowKind
    name: str
    begin_ms: int
    end_ms: int

    @property
    def expires_at_ms(self) -> int | None:
        """Return when the index may forget it: one span after its end, so the last window stays readable."""
        if self.kind is WindowKind.ALLTIME:
            return None
        return 2 * self.end_ms - self.begin_ms


_FORMS: Final = {
    WindowKind.DAILY: "%Y%m%d",
    WindowKind.WEEKLY: "%GW%V%u",
    WindowKind.MONTHLY: "%Y%m",
    WindowKind.SEASON: "%Y%m%d%H%M",
}
"""The `strptime` form of a window's name, made from its beginning; a week is named after its Monday."""


class Calendar:
    """The windows of a board: days, ISO 8601 weeks and months of its time zone, and its seasons.

    A window begins at the first instant at which the local clock shows its beginning or later, and ends where
    the next begins. So every instant is in exactly one window of a kind. An hour that occurs twice belongs to
    the window that began before its repetition; a window that would begin in a skipped hour begins after it.
    """

    def __init__(self, time_zone: str, season: str | None) -> None:
        self._zone = ZoneInfo(time_zone)
        self._season = season
        self._recent: dict[WindowKind, Window] = {}

    def at(self, kind: WindowKind, at_ms: int) -> Window:
        """Return the window of `kind` that holds the moment `at_ms`."""
        recent = self._recent.get(kind)
        if recent is None or not recent.begin_ms <= at_ms < recent.end_ms:
            recent = self._recent[kind] = self._at(kind, at_ms)
        return recent

    def named(self, name: str) -> Window:
        """Return the window with this name, such as `weekly:2026W47`.

        Raises ValueError if no window has it.
        """
        kind, _, begin = name.partition(":")
        window = self._named(WindowKind(kind), begin)
        # strptime accepts several spellings, and a name may miss a season's beginning.
        if window.name != name:
            raise ValueError(f"no window is called {name!r}")
        return window

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
        # The clock may have shown the end and then been put back.
        while (end_ms := self._first_s(end) * 1000) <= at_ms:
            begin, end = end, self._next(kind, end)
        return Window(kind, _name(kind, begin), self._first_s(begin) * 1000, end_ms)

    def _begin(self, kind: WindowKind, local: datetime) -> datetime:
        """Return the last beginning that is not after a local time."""
        if kind is WindowKind.SEASON:
            minute = local.replace(second=0, microsecond=0)
            return next(CronSim(self._cron(), minute + _MINUTE, reverse=True))
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        if kind is WindowKind.DAILY:
            return day
        return day - timedelta(days=day.weekday()) if kind is WindowKind.WEEKLY else day.replace(day=1)

    def _next(self, kind: WindowKind, begin: datetime) -> datetime:
        """Return the next beginning, in local time."""
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
        """Return what the local clock shows at an instant (Unix s)."""
        return datetime.fromtimestamp(at_s, UTC).astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _first_s(self, local: datetime) -> int:
        """Return the first instant (Unix s) at which the local clock shows a time or a later one."""
        latest = int(local.replace(tzinfo=self._zone).timestamp())
        if self._local(latest) == local:
            return latest
        # The clock skipped this time (PEP 495): fold=1 gives an instant before the skip, fold=0 one after it.
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
    """Return the calendar of a policy."""
    return _calendar(policy.time_zone, policy.season)


@lru_cache(maxsize=256)
def _calendar(time_zone: str, season: str | None) -> Calendar:
    return Calendar(time_zone, season)


def window_at(policy: Policy, kind: WindowKind, at_ms: int) -> Window:
    """Return the window of `kind` that holds the moment `at_ms` on a board with this policy."""
    return calendar_of(policy).at(kind, at_ms)


def names_of_kind(kind: WindowKind) -> tuple[str, str]:
    """Return the two texts between which the names of a kind's windows are, the first included."""
    return kind.value, f"{kind.value};"  # the semicolon follows the colon in ASCII


def window_named(policy: Policy, name: str) -> Window:
    """Return the board's window with this name. Raises ValueError if no window has it."""
    return calendar_of(policy).named(name)
