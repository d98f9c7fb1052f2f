"""The wall clock, as a thing that can be handed over."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Gives Unix milliseconds."""


def wall_clock() -> int:
    """Unix milliseconds now."""
    return time.time_ns() // 1_000_000


def rfc3339(at_ms: int) -> str:
    """A moment as text, in UTC with milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
