"""The forced exit of a process that was told to end and may hang."""

from __future__ import annotations

import os
import threading

from gateway.runtime.telemetry import Event, logger

_log = logger()


def end_within(grace_s: float, part: str) -> None:
    """End this process after `grace_s`, whatever it is doing. The ledger still has its unfinished work."""
    timer = threading.Timer(grace_s, _end, [part])
    timer.daemon = True
    timer.start()


def _end(part: str) -> None:
    _log.warning(Event.STOPPED, part=part, is_in_time=False)
    os._exit(0)  # skips Python's own shutdown, which may be what hangs
