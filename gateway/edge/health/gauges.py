"""The gauges that an edge reads from the ledger when its metrics are scraped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Final

from gateway.edge.context import Edge
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import DeliveryState
from gateway.ledger.moderation.late_queues import count_late
from gateway.ledger.reads import ReadKind
from gateway.ledger.seals import chain
from gateway.ledger.submissions import work
from gateway.runtime.telemetry import BACKLOG, BACKLOG_AGE, QUEUES_LATE, UNDELIVERED, UNSEALED, UNSEALED_AGE
from policies.errors import LedgerUnavailable

TIMEOUT_S: Final = 2.0
"""Time that the ledger has to answer. After it the gauges keep their values, and the scrape goes on."""


async def measure_ledger(edge: Edge) -> None:
    """Set the gauges of the ledger, or leave them as they are while it does not answer."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            backlog = await edge.ledger.read(work.backlog(), ReadKind.DUTIES)
            unsealed = await edge.ledger.read(chain.unsealed(), ReadKind.DUTIES)
            late = await edge.ledger.read(count_late, ReadKind.DUTIES)
            undelivered = await edge.ledger.read(webhooks.undelivered(), ReadKind.DUTIES)
    except (LedgerUnavailable, TimeoutError):
        return
    for is_urgent, waiting in backlog.items():
        queue = "urgent" if is_urgent else "main"
        BACKLOG.labels(queue).set(waiting.count)
        BACKLOG_AGE.labels(queue).set(_age_s(edge, waiting.since_ms))
    for state in (DeliveryState.PENDING, DeliveryState.DEAD):
        UNDELIVERED.labels(state.value).set(undelivered.get(state, 0))
    QUEUES_LATE.set(late)
    UNSEALED.set(unsealed.events)
    UNSEALED_AGE.set(_age_s(edge, unsealed.since_ms))


def measure_from_threads(edge: Edge) -> Callable[[], None]:
    """Return `measure_ledger` for threads other than the caller's, which runs the event loop."""
    loop = asyncio.get_running_loop()

    def measure() -> None:
        measurement = asyncio.run_coroutine_threadsafe(measure_ledger(edge), loop)
        with suppress(TimeoutError, CancelledError):
            measurement.result(TIMEOUT_S)
            return
        measurement.cancel()

    return measure


def _age_s(edge: Edge, since_ms: int | None) -> float:
    return max(0, edge.clock() - since_ms) / 1000 if since_ms else 0
