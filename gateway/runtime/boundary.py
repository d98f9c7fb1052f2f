"""The boundary to a dependency: whatever its driver raises becomes our one error for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

FAULTS: Final = (OSError, EOFError, RuntimeError)
"""Errors of a connection below every driver. uvloop raises RuntimeError if a socket in use is closed."""


@contextmanager
def boundary(
    place: FaultPlace,
    unavailable: Callable[[str], ScoregateError],
    *,
    known: tuple[type[Exception], ...] = FAULTS,
    answers: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Raise every error of the block as `unavailable`, and report it if it is not `known`.

    Our own errors pass, and so do `answers` of the dependency. A cancellation passes only if this task was
    cancelled: drivers also raise it when they drop a connection on which others wait.
    """
    try:
        yield
    except (ScoregateError, *answers):  # type: ignore[misc]
        raise
    except known as error:
        raise unavailable(_message_of(error)) from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise unavailable("the driver gave up the call") from error
    except Exception as error:
        event_id = report(place, error)
        raise unavailable(f"{type(error).__name__} (event {event_id})") from error


def _message_of(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
