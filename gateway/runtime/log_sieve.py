"""Bounds how often the log says the same thing, so that nobody can fill a disk by repeating what goes wrong."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

import structlog

PER_MINUTE: Final = 6
"""Lines about the same thing in a minute; the next one after it says how many were left out."""

MINUTE_S: Final = 60.0

NAMES_KEPT: Final = 256
"""Things of which the lines are counted; more than there are places in the code that can fail at once."""

TRACEBACK_CHARACTERS: Final = 8_000

_ABOUT: Final = ("fingerprint", "duty", "part", "consumer", "validator", "board")
"""Fields that tell one thing from another. Each is from a closed set: never a player, an address or a path."""


class Sieve:
    """Lets `per_minute` lines about each thing through in a minute, and counts the rest. Safe from any thread."""

    def __init__(
        self, *, per_minute: int = PER_MINUTE, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._seen: dict[object, tuple[float, int]] = {}

    def left_out(self, name: object) -> int | None:
        """How many lines about `name` were left out before this one; None if this one is to be left out too."""
        now_s = self._monotonic_s()
        with self._lock:
            began_s, count = self._seen.pop(name, (now_s, 0))
            missed = max(0, count - self._per_minute)
            if now_s >= began_s + MINUTE_S:
                began_s, count = now_s, 0
            elif count >= self._per_minute:
                self._seen[name] = (began_s, count + 1)
                return None
            self._seen[name] = (began_s, count + 1)
            if len(self._seen) > NAMES_KEPT:  # the one that was met longest ago
                del self._seen[next(iter(self._seen))]
            return missed


class SievedEvents:
    """A processor of structlog: puts the events of these names, and whatever has a traceback, through a sieve."""

    def __init__(self, names: frozenset[str], sieve: Sieve) -> None:
        self._names = names
        self._sieve = sieve

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """The event, with how many like it were left out before. Raises DropEvent to leave it out."""
        name = str(event.get("event"))
        if name in self._names or event.get("exc_info"):
            left_out = self._sieve.left_out((name, *(str(event.get(field)) for field in _ABOUT)))
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                event["left_out"] = left_out
        return event


def shorten_traceback(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Keeps the end of a long traceback: that is where it says what happened."""
    if isinstance(text := event.get("exception"), str) and len(text) > TRACEBACK_CHARACTERS:
        event["exception"] = f"... {text[-TRACEBACK_CHARACTERS:]}"
    return event


class SievedRecords(logging.Filter):
    """The same for what libraries log: of each logger, and of each place in its code."""

    def __init__(self, sieve: Sieve) -> None:
        super().__init__()
        self._sieve = sieve

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written; one that follows others that were not says how many."""
        left_out = self._sieve.left_out((record.name, record.pathname, record.lineno))
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} like it left out)", None
        return left_out is not None
