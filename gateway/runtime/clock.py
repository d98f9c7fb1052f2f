"""The wall clock, and moments as RFC 3339 text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from policies.vocabulary import LATEST_MS

Clock = Callable[[], int]
"""A function that returns the time in Unix milliseconds."""


def wall_clock() -> int:
    """Return the current time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=16_384)  # the pages of a board show the same moments again and again
def rfc3339(at_ms: int) -> str:
    """Return a moment as text, in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(seconds: int) -> str:
    """Return a duration in words, in its two largest units, such as `3 h 12 min`."""
    for unit_s, unit, next_s, following in _SPANS:
        if seconds >= unit_s:
            rest = seconds % unit_s // next_s
            return f"{seconds // unit_s} {unit}" + (f" {rest} {following}" if rest else "")
    return f"{seconds} s"


_SPANS: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
"""Units of a duration (s), each with the unit after it."""

_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_LEAP: Final = re.compile(r"[^.]*:60(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_EXAMPLE: Final = "2026-11-20T12:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_rfc3339(text: str) -> int | None:
    """Return the moment (Unix ms) of an RFC 3339 text, or None. Leap seconds are not supported.

    A fraction may have any number of digits, and is truncated to milliseconds.
    """
    at_ms = _instant_ms(text)
    return at_ms if at_ms is not None and at_ms <= LATEST_MS else None


def fault_of_rfc3339(text: str) -> str:
    """Return what is wrong with a text that is no moment since 1970, and what to write instead."""
    at_ms = _instant_ms(text)
    if at_ms is not None and at_ms > LATEST_MS:
        return f"is after the year 9999 in UTC; expected an earlier instant, such as {_EXAMPLE}"
    if at_ms is not None:
        return f"is before 1970; expected a later instant, such as {_EXAMPLE}"
    if _LEAP.fullmatch(text):
        return "leap seconds are not supported; write :59 instead of :60"
    if _instant_ms(text + "Z") is not None:
        return f"has no time zone; add Z for UTC or an offset such as +01:00, as in {_EXAMPLE}"
    return f"expected an RFC 3339 instant, such as {_EXAMPLE}"


def _instant_ms(text: str) -> int | None:
    """Return the instant (Unix ms) of an RFC 3339 text, or None. An offset may lead out of the year 9999."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat((match[1] + match[2]).upper())
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)
