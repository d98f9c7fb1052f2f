"""The line between us and what we depend on: whatever a driver raises becomes the one error that we have for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

FAULTS: Final = (OSError, EOFError, RuntimeError)
"""How a connection fails below every driver. uvloop says with RuntimeError that a socket was closed under its user."""


@contextmanager
def boundary(
    place: FaultPlace,
    unavailable: Callable[[str], ScoregateError],
    *,
    known: tuple[type[Exception], ...] = FAULTS,
    answers: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Has whatever the block raises say so as `unavailable`; what is not `known` is reported as well.

    Our own errors pass, and so does what the dependency answers with. A cancellation passes if somebody cancelled us:
    drivers also raise it when they give up a connection on which others wait.
    """
    try:
        yield
    except (ScoregateError, *answers):  # type: ignore[misc]
        raise
    except known as error:
        raise unavailable(_said(error)) from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise unavailable("the driver gave the call up") from error
    except Exception as error:
        event_id = report(place, error)
        raise unavailable(f"{type(error).__name__} (event {event_id})") from error


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
