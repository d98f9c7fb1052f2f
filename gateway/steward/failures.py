"""What the steward could not do, and on which board: counted, logged at a bounded rate, and remembered until it works."""

from __future__ import annotations

import time
from typing import Final

from gateway.runtime.telemetry import DUTY_FAILURES, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

REPEAT_S: Final = 60.0
"""How long a failure that comes again is only counted before it is logged again."""

_log = logger()


class Failures:
    """The duties that fail now. `board` is empty for what fails on no board by itself."""

    def __init__(self) -> None:
        self._logged_s: dict[tuple[str, str], float] = {}

    def note(self, duty: str, board: str, error: Exception) -> None:
        """Counts a failure, and logs it unless it was logged a moment ago; one that nobody foresaw with its traceback."""
        DUTY_FAILURES.labels(duty, board).inc()
        now_s, last_s = time.monotonic(), self._logged_s.get((duty, board))
        if not isinstance(error, ScoregateError):
            report(FaultPlace.DUTY, error, duty=duty, board=board)
            self._logged_s.setdefault((duty, board), now_s)
            return
        if last_s is not None and now_s - last_s < REPEAT_S:
            return
        self._logged_s[duty, board] = now_s
        _log.warning(Event.DUTY_FAILED, duty=duty, board=board, error=f"{type(error).__name__}: {error}")

    def clear(self, duty: str, board: str) -> None:
        """Notes that the duty is done on the board."""
        self._logged_s.pop((duty, board), None)

    def now(self) -> tuple[str, ...]:
        """What fails now, as `duty` or `duty:board`, in order."""
        return tuple(sorted(f"{duty}:{board}" if board else duty for duty, board in self._logged_s))
