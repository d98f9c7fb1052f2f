"""Places where a test may have a process die, fail or stand still. Inert unless the environment or a test arms one.

`SCOREGATE_FAILPOINT=<name>:<action>[,<name>:<action>...]` arms points for the first time that each is reached. `kill`
ends the process with SIGKILL, as if its power had failed; `raise` raises what nobody foresaw; `stall:<seconds>` has the
thread that is there stand still. It is a tool of the fault tests, not a setting: in service it stays unset.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final

VARIABLE: Final = "SCOREGATE_FAILPOINT"

Action = Callable[[], object]


class Point(StrEnum):
    """Every place where a fault has to be survived, in the order in which a submission passes them."""

    AFTER_OPEN = "after-open"
    BEFORE_ADMIT = "before-admit"
    AFTER_STORE = "after-store"
    BEFORE_APPEND = "before-append"
    INSIDE_APPEND = "inside-append"
    AFTER_APPEND = "after-append"
    BEFORE_PEND = "before-pend"
    BEFORE_ANSWER = "before-answer"
    BEFORE_DISPATCH = "before-dispatch"
    AFTER_DISPATCH = "after-dispatch"
    AT_DEQUEUE = "at-dequeue"
    AFTER_LEASE = "after-lease"
    AFTER_VERDICT = "after-verdict"
    INSIDE_SETTLE = "inside-settle"
    AFTER_SETTLE = "after-settle"
    AFTER_PROJECT = "after-project"
    INSIDE_REBUILD = "inside-rebuild"
    BEFORE_SWAP = "before-swap"
    AFTER_SWAP = "after-swap"
    INSIDE_ARCHIVE = "inside-archive"


class Unforeseen(Exception):
    """The failure that `raise` stands for: a bug, of which nothing is known beforehand."""


def reach(point: Point) -> None:
    """Nothing, unless the point is armed: then its action, once."""
    if _armed and point in _armed:
        _armed.pop(point)()


def arm(point: Point, action: Action) -> None:
    """Has `action` done when this process next reaches the point, on the thread that reaches it."""
    _armed[point] = action


def disarm() -> None:
    """Makes every point inert again."""
    _armed.clear()


def action_of(text: str) -> Action:
    """What `kill`, `raise` or `stall:<seconds>` stands for. Raises ValueError for anything else."""
    name, _, seconds = text.partition(":")
    if name == "stall":
        return partial(time.sleep, float(seconds))
    if text not in {"kill", "raise"}:
        raise ValueError(f"expected kill, raise or stall:<seconds>, got {text!r}")
    return _kill if name == "kill" else _raise


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise Unforeseen("a fail-point was reached")


def _read(setting: str) -> dict[Point, Action]:
    """The points that are armed. Raises ValueError for one that does not exist, which would test nothing."""
    pairs = [each.partition(":") for each in setting.split(",") if each]
    return {Point(name): action_of(action) for name, _, action in pairs}


_armed: Final = _read(os.environ.get(VARIABLE, ""))
