"""`scoregate serve`: run an edge."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scoregate.commands.common import Bind, settings_of

if TYPE_CHECKING:
    from scoregate.parts import Signals


def serve(bind: Bind = None) -> None:
    """Run the edge."""
    import asyncio

    from gateway.edge.connections import listen
    from gateway.edge.health.gauges import measure_from_threads
    from gateway.runtime.reload import reload_when_asked
    from gateway.wiring import open_edge, put_in_force
    from scoregate.metrics import serving_edge_metrics
    from scoregate.parts import run_part

    settings = settings_of(None, bind)

    async def run(signals: Signals) -> None:
        async with open_edge(settings) as edge:
            with serving_edge_metrics(settings, measure_from_threads(edge)):
                async with listen(edge):
                    put = partial(put_in_force, edge)
                    reloading = asyncio.create_task(
                        reload_when_asked(signals.reload, settings, edge.catalogue, put)
                    )
                    await signals.stop.wait()
                    reloading.cancel()
                    await edge.shutdown.pause(settings.shutdown_pause_s, signals.hurry)

    run_part(settings, "edge", run)
