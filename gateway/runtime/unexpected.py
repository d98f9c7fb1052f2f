"""What nobody expected: one event each, with an id that a user can quote, logged at a bounded rate, and counted."""

from __future__ import annotations

import hashlib
import secrets
import traceback
from enum import StrEnum
from typing import Final

from gateway.runtime.telemetry import UNEXPECTED, Event, logger

_FRAMES: Final = 6
"""Innermost calls by which two failures are taken for the same one."""

_log = logger()


class FaultPlace(StrEnum):
    """Where something unexpected was met: what was asked, or which work that goes on for ever."""

    REQUEST = "request"
    INDEX = "index"
    LEDGER = "ledger"
    RECORDINGS = "recordings"
    QUEUE = "queue"
    WEBHOOK = "webhook"
    KAFKA = "kafka"
    DUTY = "duty"
    FEED = "feed"
    BUILDS = "builds"
    PRESENCE = "presence"
    COALESCER = "coalescer"
    OWED = "owed"
    LAG = "lag"
    POLICIES = "policies"
    METRICS = "metrics"
    WORKER = "worker"


def report(place: FaultPlace, error: BaseException, **context: str) -> str:
    """The id of the event that tells of `error`; it is counted, and logged unless its like were just logged.

    The id begins with a fingerprint of where the error came from: also one that was left out leads to its like.
    """
    fingerprint = _fingerprint(error)
    event_id = f"{fingerprint}-{secrets.token_hex(4)}"
    UNEXPECTED.labels(place.value).inc()
    told = {"place": place.value, "event_id": event_id, "fingerprint": fingerprint}
    _log.error(Event.UNEXPECTED, **told, **context, exc_info=error)
    return event_id


def _fingerprint(error: BaseException) -> str:
    """Eight hexadecimal digits of the error's type and the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = [f"{frame.filename}:{frame.name}:{frame.lineno}" for frame in frames]
    return hashlib.sha256("\n".join([type(error).__qualname__, *where]).encode()).hexdigest()[:8]
