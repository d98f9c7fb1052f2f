"""Reports of unexpected errors: counted, logged at a limited rate, with an id that a user can quote."""

from __future__ import annotations

import hashlib
import secrets
import traceback
from enum import StrEnum
from typing import Final

from gateway.runtime.telemetry import UNEXPECTED, Event, logger

_FRAMES: Final = 6
"""Innermost calls that two failures share if they count as the same one."""

_log = logger()


class FaultPlace(StrEnum):
    """The places that report unexpected errors: requests, dependencies and loops."""

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
    BANS = "bans"
    TOKENS = "tokens"
    SIGN_IN = "sign_in"
    PRESENCE = "presence"
    COALESCER = "coalescer"
    OWED = "owed"
    LAG = "lag"
    POLICIES = "policies"
    METRICS = "metrics"
    WORKER = "worker"


def report(place: FaultPlace, error: BaseException, **context: str) -> str:
    """Count and log `error`, and return its event's id. It is not logged if the same one just was.

    The id begins with a fingerprint of the error's origin, which finds the same error in the log.
    """
    fingerprint = _fingerprint(error)
    event_id = f"{fingerprint}-{secrets.token_hex(4)}"
    UNEXPECTED.labels(place.value).inc()
    ids = {"place": place.value, "event_id": event_id, "fingerprint": fingerprint}
    _log.error(Event.UNEXPECTED, **ids, **context, exc_info=error)
    return event_id


def _fingerprint(error: BaseException) -> str:
    """Return eight hexadecimal digits that stand for the error's type and the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = [f"{frame.filename}:{frame.name}:{frame.lineno}" for frame in frames]
    return hashlib.sha256("\n".join([type(error).__qualname__, *where]).encode()).hexdigest()[:8]
