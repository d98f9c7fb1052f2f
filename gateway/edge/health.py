"""Is it alive, is it ready, and what does it measure."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.boards.connection import probe
from gateway.edge.answers import json_response
from gateway.edge.context import EDGE, Edge
from gateway.edge.wire import answers
from gateway.ledger import webhooks, work
from gateway.ledger.reads import ReadKind
from gateway.ledger.seals import chain
from gateway.ledger.webhooks import DeliveryState
from gateway.telemetry import BACKLOG, BACKLOG_AGE, REGISTRY, UNDELIVERED, UNSEALED, UNSEALED_AGE
from policies.errors import IndexUnavailable, LedgerUnavailable

PROBE_TIMEOUT_S: Final = 2.0

PROBE_KEPT_MS: Final = 1_000


async def livez(_request: web.Request) -> web.Response:
    """200 while the process answers."""
    return json_response(answers.Liveness())


async def readyz(request: web.Request) -> web.Response:
    """200 while submissions can be taken: the ledger must take writes; without Redis we are degraded, and say so.

    503 `ending` once the edge is about to end: it still answers, and balancers are to send it no more.
    """
    edge = request.app[EDGE]
    has_ledger, has_index = await asyncio.gather(_has_ledger(edge), _has_index(edge))
    is_timely = _is_timely(edge)
    missing, failing = tuple(edge.presence.missing()), tuple(edge.presence.failing())
    has_room = not edge.disk.is_low
    is_all_well = has_index and is_timely and has_room and not missing and not failing
    status = ("ready" if is_all_well else "degraded") if has_ledger else "unready"
    if edge.shutdown.has_begun:
        status = "ending"
    answer = answers.Readiness(
        status=status,  # type: ignore[arg-type]
        ledger=has_ledger,
        index=has_index,
        policies=not edge.boards.is_stale,
        disk=has_room,
        clock=is_timely,
        clock_offset_s=edge.reference.offset_ms / 1000 if edge.reference else 0.0,
        clock_error_s=edge.clock_error_ms / 1000,
        missing=missing,
        failing=failing,
    )
    return json_response(answer, status=200 if status in {"ready", "degraded"} else 503)


async def metrics(request: web.Request) -> web.Response:
    """The metrics in Prometheus' text format."""
    edge = request.app[EDGE]
    try:
        backlog = await edge.ledger.read(work.backlog(), ReadKind.DUTIES)
        tail = await edge.ledger.read(chain.tail(), ReadKind.DUTIES)
        undelivered = await edge.ledger.read(webhooks.undelivered(), ReadKind.DUTIES)
    except LedgerUnavailable:
        pass  # the gauges keep their last value; readiness tells of the ledger
    else:
        for is_urgent, waiting in backlog.items():
            lane = "urgent" if is_urgent else "main"
            BACKLOG.labels(lane).set(waiting.count)
            BACKLOG_AGE.labels(lane).set(_age_s(edge, waiting.since_ms))
        for state in (DeliveryState.PENDING, DeliveryState.DEAD):
            UNDELIVERED.labels(state.value).set(undelivered.get(state, 0))
        UNSEALED.set(tail.events)
        UNSEALED_AGE.set(_age_s(edge, tail.since_ms))
    body = generate_latest(REGISTRY)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _age_s(edge: Edge, since_ms: int | None) -> float:
    return max(0, edge.clock() - since_ms) / 1000 if since_ms else 0


def _is_timely(edge: Edge) -> bool:
    """True if our clock and the shared one agree, and we know that they do."""
    bound_ms = edge.settings.clock_offset_s * 1000
    offset_ms = edge.reference.offset_ms if edge.reference else 0
    return abs(offset_ms) <= bound_ms and edge.clock_error_ms <= bound_ms


async def _has_ledger(edge: Edge) -> bool:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await edge.ledger.write(work.probe())
    except (LedgerUnavailable, TimeoutError):
        return False
    return not edge.ledger.is_refusing


async def _has_index(edge: Edge) -> bool:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await probe(edge.index.client, edge.boards, kept_ms=PROBE_KEPT_MS)
    except (IndexUnavailable, TimeoutError):
        return False
    return True
