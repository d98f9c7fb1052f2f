"""Failing duties by board: counted, logged at a bounded rate, and remembered until they succeed."""

from __future__ import annotations

import time
from typing import Final

from gateway.runtime.telemetry import DUTY_FAILURES, Event, label_of, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

REPEAT_S: Final = 60.0
"""How long a repeated failure is only counted before it is logged again."""

FORGOTTEN_S: Final = 600.0
"""Age from which a failure on a board counts for nothing: the board may never be due again, or elsewhere."""

FAILING_LIMIT: Final = 256
"""Most failing duties of boards that are remembered: an outage may fail on every board in use."""

_log = logger()


class Failures:
    """The duties that fail now. `board` is empty where a failure belongs to no single board."""

    def __init__(self) -> None:
        self._logged_s: dict[tuple[str, str], float] = {}
        self._noted_s: dict[tuple[str, str], float] = {}

    def note(self, duty: str, board: str, error: Exception) -> None:
        """Count a failure, and log it unless it was just logged; log an unforeseen one with its traceback."""
        DUTY_FAILURES.labels(duty, label_of(board)).inc()
        now_s, last_s = time.monotonic(), self._logged_s.get((duty, board))
        self._noted_s[duty, board] = now_s
        if not isinstance(error, ScoregateError):
            report(FaultPlace.DUTY, error, duty=duty, board=board)
            self._remember(duty, board, now_s if last_s is None else last_s)
            return
        if last_s is not None and now_s - last_s < REPEAT_S:
            return
        self._remember(duty, board, now_s)
        _log.warning(Event.DUTY_FAILED, duty=duty, board=board, error=f"{type(error).__name__}: {error}")

    def _remember(self, duty: str, board: str, logged_s: float) -> None:
        self._logged_s[duty, board] = logged_s
        if len(self._logged_s) > FAILING_LIMIT:
            self.clear(*next(iter(self._logged_s)))

    def clear(self, duty: str, board: str) -> None:
        """Note that the duty succeeded on the board."""
        self._logged_s.pop((duty, board), None)
        self._noted_s.pop((duty, board), None)

    def now(self) -> tuple[str, ...]:
        """Return what fails now as sorted `duty` or `duty:board`; forget boards that were not tried again."""
        oldest_s = time.monotonic() - FORGOTTEN_S
        for duty, board in [key for key, noted_s in self._noted_s.items() if noted_s <= oldest_s]:
            if board:
                self.clear(duty, board)
        return tuple(sorted(f"{duty}:{board}" if board else duty for duty, board in self._logged_s))
