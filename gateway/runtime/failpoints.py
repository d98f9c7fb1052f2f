"""Points at which a test can kill, fail or stall a process. Inert unless the environment or a test arms one.

`SCOREGATE_FAILPOINT=<name>:<action>[,<name>:<action>...]` arms points; each acts the first time it is
reached. `kill` ends the process with SIGKILL, like a power failure; `stop` stops it with SIGSTOP until a
test sends SIGCONT; `raise` raises an unexpected error; `stall:<seconds>` blocks the thread. It is a tool of
the fault tests, not a setting: never set it in service.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

VARIABLE: Final = "SCOREGATE_FAILPOINT"

Action = Callable[[], object]


class Point(StrEnum):
    """Points at which we must survive a fault: those of a submission in its order, of duties, of imports."""

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
    INSIDE_REFOLD = "inside-refold"
    BEFORE_FENCED_WRITE = "before-fenced-write"
    INSIDE_COPY = "inside-copy"
    AFTER_COPY = "after-copy"
    AFTER_IMPORTED_BATCH = "after-imported-batch"
    AFTER_REFUSALS = "after-refusals"
    INSIDE_CHECKPOINT = "inside-checkpoint"
    AFTER_CHECKPOINT = "after-checkpoint"


class Unforeseen(Exception):
    """The error that `raise` raises: it stands for a bug."""


def reach(point: Point) -> None:
    """Do the point's action, once, if it is armed."""
    if _armed and point in _armed:
        _armed.pop(point)()


def arm(point: Point, action: Action) -> None:
    """Do `action` when this process next reaches the point, on the thread that reaches it."""
    _armed[point] = action


def disarm() -> None:
    """Make every point inert again."""
    _armed.clear()


def action_of(text: str) -> Action:
    """Return the action of `kill`, `stop`, `raise` or `stall:<seconds>`. Raises ValueError for another."""
    name, _, seconds = text.partition(":")
    if name == "stall":
        return partial(time.sleep, float(seconds))
    if text not in _ACTIONS:
        raise ValueError(f"expected kill, stop, raise or stall:<seconds>, got {text!r}")
    return _ACTIONS[text]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _raise() -> None:
    raise Unforeseen("a failpoint was reached")


_ACTIONS: Final[Mapping[str, Action]] = {"kill": _kill, "stop": _stop, "raise": _raise}


def _read(setting: str) -> dict[Point, Action]:
    """Return the armed points. Raises ValueError for an unknown one, which would test nothing."""
    pairs = [item.partition(":") for item in setting.split(",") if item]
    return {Point(name): action_of(action) for name, _, action in pairs}


_armed: Final = _read(os.environ.get(VARIABLE, ""))
