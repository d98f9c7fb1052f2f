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


_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_rfc3339(text: str) -> int | None:
    """The moment, in Unix milliseconds, that a text names by RFC 3339, or None; a leap second is none that we know."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
