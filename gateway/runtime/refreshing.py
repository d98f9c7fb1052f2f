"""What a part knows of the ledger, read again and again while the part runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

from gateway.runtime.background import rest
from gateway.runtime.telemetry import Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import LedgerUnavailable

_log = logger()


async def refresh_for_ever(
    refresh: Callable[[], Awaitable[None]], pause_s: float, *, part: str, place: FaultPlace
) -> NoReturn:
    """Refresh every `pause_s` until cancelled: no failure ends it, for what is known would go stale."""
    while True:
        await rest(pause_s)
        try:
            await refresh()
        except LedgerUnavailable as error:
            _log.warning(Event.LEDGER_DOWN, part=part, error=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may be fine
            report(place, error)
