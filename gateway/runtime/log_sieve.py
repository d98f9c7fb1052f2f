"""Limits on repeated log lines, so that nobody can fill a disk by repeating a failure."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from gateway.runtime.lean_structlog import structlog

PER_MINUTE: Final = 6
"""Lines about one subject in a minute; the first one after it says how many were left out."""

MINUTE_S: Final = 60.0

NAMES_KEPT: Final = 256
"""Subjects whose lines are counted; more than the places in the code that can fail at once."""

TRACEBACK_CHARACTERS: Final = 8_000

_ABOUT: Final = ("moderator", "cause", "fingerprint", "duty", "part", "consumer", "validator", "board")
"""Fields that make up a subject. Each is from a closed set: never a player, an address or a path.

`moderator` is only ever the name of an account that is there.
"""


class Sieve:
    """A filter that passes `per_minute` lines per subject and minute, and counts the rest. Thread-safe."""

    def __init__(
        self, *, per_minute: int = PER_MINUTE, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_minute = per_minute
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._seen: dict[object, tuple[float, int]] = {}

    def left_out(self, name: object) -> int | None:
        """Return how many lines about `name` were left out before this one; None to leave it out too."""
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
            if len(self._seen) > NAMES_KEPT:  # the one unused for longest
                del self._seen[next(iter(self._seen))]
            return missed


class SievedEvents:
    """A structlog processor that sieves the events of these names, and all that have a traceback."""

    def __init__(self, names: frozenset[str], sieve: Sieve) -> None:
        self._names = names
        self._sieve = sieve

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """Return the event, with the number of its like left out before. Raises DropEvent to leave it out."""
        name = str(event.get("event"))
        if name in self._names or event.get("exc_info"):
            left_out = self._sieve.left_out((name, *(str(event.get(field)) for field in _ABOUT)))
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                event["left_out"] = left_out
        return event


def shorten_traceback(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Keep only the end of a long traceback, where the error stands."""
    if isinstance(text := event.get("exception"), str) and len(text) > TRACEBACK_CHARACTERS:
        event["exception"] = f"... {text[-TRACEBACK_CHARACTERS:]}"
    return event


class SievedRecords(logging.Filter):
    """A sieve of what libraries log; a subject is a logger and a place in its code."""

    def __init__(self, sieve: Sieve) -> None:
        super().__init__()
        self._sieve = sieve

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record, after adding the number of its like left out before."""
        left_out = self._sieve.left_out((record.name, record.pathname, record.lineno))
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} like it left out)", None
        return left_out is not None
