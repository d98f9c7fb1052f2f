"""Which window a moment belongs to, and when that window begins and ends. All in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from policies.model import WindowKind

FOREVER_MS = 2**53 - 1
"""End of the `alltime` window: later than any time we can name exactly."""


@dataclass(frozen=True, slots=True)
class Window:
    """One span of time of a board: `alltime`, `daily:20261120`, `weekly:2026W47`, `monthly:202611`.

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


def window_at(kind: WindowKind, at_ms: int) -> Window:
    """The window of `kind` that holds the moment `at_ms`. Weeks are ISO 8601 weeks (they begin on Monday)."""
    if kind is WindowKind.ALLTIME:
        return Window(kind, "alltime", 0, FOREVER_MS)
    day = datetime.fromtimestamp(at_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if kind is WindowKind.DAILY:
        return _window(kind, f"daily:{day:%Y%m%d}", day, day + timedelta(days=1))
    if kind is WindowKind.WEEKLY:
        monday = day - timedelta(days=day.weekday())
        year, week, _ = day.isocalendar()
        return _window(kind, f"weekly:{year}W{week:02d}", monday, monday + timedelta(days=7))
    first = day.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    return _window(kind, f"monthly:{first:%Y%m}", first, following)


_FORMS: Final = {
    WindowKind.ALLTIME: "",
    WindowKind.DAILY: "%Y%m%d",
    WindowKind.WEEKLY: "%GW%V%u",
    WindowKind.MONTHLY: "%Y%m",
}
"""How a window is named after its day, for `strptime`; a week after its Monday."""


def window_named(name: str) -> Window:
    """The window that bears a name, as `weekly:2026W47`. Raises ValueError for a name that no window has."""
    kind, _, day = name.partition(":")
    form = _FORMS[WindowKind(kind)]
    try:
        begin = datetime.strptime(f"{day}1" if kind == WindowKind.WEEKLY else day, form).replace(tzinfo=UTC)
        found = window_at(WindowKind(kind), int(begin.timestamp() * 1000))
    except OverflowError:
        raise ValueError("no calendar goes that far") from None
    if found.name != name:  # strptime takes more spellings than one
        raise ValueError(f"no window is called {name!r}")
    return found


def _window(kind: WindowKind, name: str, begin: datetime, end: datetime) -> Window:
    return Window(kind, name, int(begin.timestamp() * 1000), int(end.timestamp() * 1000))
