"""The end of a process that was told to end, and may hang in something."""

from __future__ import annotations

import os
import threading

from gateway.runtime.telemetry import Event, logger

_log = logger()


def end_within(grace_s: float, part: str) -> None:
    """Ends this process after `grace_s`, wherever it is by then. What it had begun comes again from the ledger."""
    timer = threading.Timer(grace_s, _end, [part])
    timer.daemon = True
    timer.start()


def _end(part: str) -> None:
    _log.warning(Event.STOPPED, part=part, is_in_time=False)
    os._exit(0)  # nothing of Python's own end can be waited for: that is what hangs
