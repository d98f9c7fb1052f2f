"""The health checks `/livez` and `/readyz`."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.responses import json_response
from gateway.edge.problems import RETRY_SOON
from gateway.edge.wire import outcomes


async def livez(_request: web.Request) -> web.Response:
    """Answer 200 while the process is alive."""
    return json_response(outcomes.Liveness())


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 while submissions can be accepted, which needs a ledger that takes writes.

    Without Redis the status is `degraded`. The answer is 503 `ending` once the edge is about to end: it still
    serves, and balancers should send it no more requests.
    """
    edge = request.app[EDGE]
    has_ledger, has_index = await edge.probes.answers()
    is_timely = _is_timely(edge)
    missing, failing = tuple(_missing(edge)), tuple(edge.presence.failing())
    has_room = not edge.disk.is_low
    is_all_well = has_index and is_timely and has_room and not missing and not failing
    status = ("ready" if is_all_well else "degraded") if has_ledger else "unready"
    if edge.shutdown.has_begun:
        status = "ending"
    answer = outcomes.Readiness(
        status=status,  # type: ignore[arg-type]
        ledger=has_ledger,
        index=has_index,
        policies=not edge.catalogue.is_stale,
        disk=has_room,
        clock=is_timely,
        clock_offset_s=edge.reference.offset_ms / 1000 if edge.reference else 0.0,
        clock_error_s=edge.clock_error_ms / 1000,
        missing=missing,
        failing=failing,
    )
    if status in {"ready", "degraded"}:
        return json_response(answer)
    return json_response(answer, status=503, headers=dict(RETRY_SOON))


def _missing(edge: Edge) -> Iterator[str]:
    """Yield the missing parts of the deployment, and `recordings` while their store takes none."""
    yield from edge.presence.missing()
    if edge.recordings.is_refusing:
        yield "recordings"


def _is_timely(edge: Edge) -> bool:
    """Return whether this clock agrees with the shared one, and the error of that is small enough."""
    bound_ms = edge.settings.clock_offset_s * 1000
    offset_ms = edge.reference.offset_ms if edge.reference else 0
    return abs(offset_ms) <= bound_ms and edge.clock_error_ms <= bound_ms
