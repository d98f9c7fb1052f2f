"""The wall clock, as a thing that can be handed over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

Clock = Callable[[], int]
"""Gives Unix milliseconds."""


def wall_clock() -> int:
    """Unix milliseconds now."""
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=16_384)  # the pages of a board show the same moments again and again
def rfc3339(at_ms: int) -> str:
    """A moment as text, in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_LEAP: Final = re.compile(r"[^.]*:60(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_EXAMPLE: Final = "2026-11-20T12:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_rfc3339(text: str) -> int | None:
    """The moment, in Unix milliseconds, that a text names by RFC 3339, or None; a leap second is none that we know.

    A fraction may have any number of digits; what is finer than a millisecond is cut off.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat((found[1] + found[2]).upper())
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def fault_of_rfc3339(text: str) -> str:
    """What to write in the place of a text that names no moment since 1970."""
    if parse_rfc3339(text) is not None:
        return f"is before 1970, where time begins here; expected an instant as {_EXAMPLE}"
    if _LEAP.fullmatch(text):
        return "leap seconds are not known here; write :59 in the place of :60"
    if parse_rfc3339(text + "Z") is not None:
        return f"has no time zone; add Z for UTC or an offset as +01:00, as in {_EXAMPLE}"
    return f"expected an instant by RFC 3339, as {_EXAMPLE}"
