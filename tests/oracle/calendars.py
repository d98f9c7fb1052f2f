"""Windows of a board by zoneinfo and plain date arithmetic, from the words of docs/reference and from nothing of ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

FOREVER_MS = 2**53 - 1
COMPOSITE_BEGIN_MS = 1_577_836_800_000
"""2020-01-01, where the all-time slots of a composite board begin (docs/reference/policy.md, Equal scores)."""

_FORMS = {"daily": "%Y%m%d", "monthly": "%Y%m", "season": "%Y%m%d%H%M"}
_DAYS = {"daily": 3, "weekly": 15, "monthly": 63, "season": 130}


class Span(NamedTuple):
    """A window: what it is called, and from when until before when it lasts (Unix ms)."""

    name: str
    begin_ms: int
    end_ms: int

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @property
    def is_for_ever(self) -> bool:
        return self.name == "alltime"

    @property
    def forgotten_ms(self) -> int:
        """One span after its end."""
        return self.end_ms if self.is_for_ever else 2 * self.end_ms - self.begin_ms


ALLTIME = Span("alltime", 0, FOREVER_MS)


def span_at(policy: dict[str, Any], kind: str, at_ms: int) -> Span:
    """The window of this kind that holds an instant."""
    if kind == "alltime":
        return ALLTIME
    zone, season = policy.get("time_zone", "UTC"), policy.get("season", "")
    today = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).date().toordinal()
    for span in _spans(zone, kind, season, today):
        if span.begin_ms <= at_ms < span.end_ms:
            return span
    raise AssertionError(f"{at_ms} is in no {kind} window of {zone}")


@lru_cache(maxsize=4096)
def _spans(zone: str, kind: str, season: str, today: int) -> tuple[Span, ...]:
    """The windows around a day, in their order."""
    begins = list(_begins(kind, season, today))
    instants = [_first_ms(zone, each) for each in begins]
    names = [_name(kind, each) for each in begins]
    return tuple(map(Span, names, instants, instants[1:]))


def _begins(kind: str, season: str, today: int) -> list[datetime]:
    """The local times at which windows around a day begin."""
    days = [datetime.fromordinal(today + each) for each in range(-_DAYS[kind], _DAYS[kind] + 1)]
    if kind == "daily":
        return days
    if kind == "weekly":
        return [day for day in days if day.isoweekday() == 1]
    if kind == "monthly":
        return [day for day in days if day.day == 1]
    minute, hour, *pattern = season.split()
    return [day + timedelta(hours=int(hour), minutes=int(minute)) for day in days if _is_due(pattern, day)]


def _is_due(pattern: list[str], day: datetime) -> bool:
    """Whether cron's day of the month, month and day of the week are of this day; `*/3` counts from the first month."""
    here = (day.day, day.month, day.isoweekday() % 7)
    return all(
        text == "*" or ((value - 1) % int(text[2:]) == 0 if text.startswith("*/") else value == int(text))
        for text, value in zip(pattern, here, strict=True)
    )


@lru_cache(maxsize=65_536)
def _first_ms(zone: str, local: datetime) -> int:
    """The first instant at which the local clock shows this time or a later one, found by looking at each quarter of an hour."""
    at = local.replace(tzinfo=UTC) - timedelta(hours=15)
    while at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < local:
        at += timedelta(minutes=15)
    while (earlier := at - timedelta(minutes=1)).astimezone(ZoneInfo(zone)).replace(tzinfo=None) >= local:
        at = earlier
    return int(at.timestamp()) * 1000


def _name(kind: str, begin: datetime) -> str:
    if kind == "weekly":
        year, week, _ = begin.isocalendar()
        return f"weekly:{year:04}W{week:02}"
    return f"{kind}:{begin.strftime(_FORMS[kind])}"
