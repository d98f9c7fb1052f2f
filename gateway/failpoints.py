"""Places where a test may have a process die as if its power had failed. Inert unless the environment arms one.

`SCOREGATE_FAILPOINT=<name>:kill` kills the process with SIGKILL when it first reaches the point of that name. It is a
tool of the fault tests, not a setting: nothing else is read from it, and in service it stays unset.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from typing import Final

VARIABLE: Final = "SCOREGATE_FAILPOINT"


class Point(StrEnum):
    """Every place where a crash has to be survived, in the order in which a submission passes them."""

    BEFORE_APPEND = "before-append"
    INSIDE_APPEND = "inside-append"
    AFTER_APPEND = "after-append"
    BEFORE_PEND = "before-pend"
    AFTER_DISPATCH = "after-dispatch"
    AT_DEQUEUE = "at-dequeue"
    AFTER_LEASE = "after-lease"
    AFTER_VERDICT = "after-verdict"
    AFTER_SETTLE = "after-settle"
    AFTER_PROJECT = "after-project"


def _armed(setting: str | None) -> Point | None:
    """The point that is armed. Raises ValueError for one that does not exist, which would test nothing."""
    if not setting:
        return None
    name, _, action = setting.partition(":")
    if action != "kill":
        raise ValueError(f"{VARIABLE}: expected <name>:kill, got {setting!r}")
    return Point(name)


_ARMED: Final = _armed(os.environ.get(VARIABLE))


def reach(point: Point) -> None:
    """Nothing, unless the point is armed: then this process ends here, with nothing flushed and nobody told."""
    if point is _ARMED:
        os.kill(os.getpid(), signal.SIGKILL)
