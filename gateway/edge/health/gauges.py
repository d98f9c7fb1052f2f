"""What an edge asks the ledger for when its metrics are scraped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Final

from gateway.edge.context import Edge
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import DeliveryState
from gateway.ledger.reads import ReadKind
from gateway.ledger.seals import chain
from gateway.ledger.submissions import work
from gateway.runtime.telemetry import BACKLOG, BACKLOG_AGE, UNDELIVERED, UNSEALED, UNSEALED_AGE
from policies.errors import LedgerUnavailable

PATIENCE_S: Final = 2.0
"""Where the ledger takes longer, the gauges keep their last value: the other metrics are wanted then more than ever."""


async def measure_ledger(edge: Edge) -> None:
    """Sets the gauges of the ledger; they stay as they are while it is away, of which readiness tells."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            backlog = await edge.ledger.read(work.backlog(), ReadKind.DUTIES)
            unsealed = await edge.ledger.read(chain.unsealed(), ReadKind.DUTIES)
            undelivered = await edge.ledger.read(webhooks.undelivered(), ReadKind.DUTIES)
    except (LedgerUnavailable, TimeoutError):
        return
    for is_urgent, waiting in backlog.items():
        lane = "urgent" if is_urgent else "main"
        BACKLOG.labels(lane).set(waiting.count)
        BACKLOG_AGE.labels(lane).set(_age_s(edge, waiting.since_ms))
    for state in (DeliveryState.PENDING, DeliveryState.DEAD):
        UNDELIVERED.labels(state.value).set(undelivered.get(state, 0))
    UNSEALED.set(unsealed.events)
    UNSEALED_AGE.set(_age_s(edge, unsealed.since_ms))


def measure_from_threads(edge: Edge) -> Callable[[], None]:
    """The same for a thread that is not the event loop's, which is the caller's."""
    loop = asyncio.get_running_loop()

    def measure() -> None:
        measuring = asyncio.run_coroutine_threadsafe(measure_ledger(edge), loop)
        with suppress(TimeoutError, CancelledError):
            measuring.result(PATIENCE_S)
            return
        measuring.cancel()

    return measure


def _age_s(edge: Edge, since_ms: int | None) -> float:
    return max(0, edge.clock() - since_ms) / 1000 if since_ms else 0
