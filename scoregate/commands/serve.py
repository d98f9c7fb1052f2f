"""`scoregate serve`: run an edge, or several at one address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from policies.errors import SettingsError
from scoregate.commands.common import Bind, settings_of

if TYPE_CHECKING:
    import socket

    from gateway.deployment.run_files import PartFile
    from gateway.runtime.settings import Settings
    from policies.loader import Policies
    from scoregate.parts import Signals


def serve(
    bind: Bind = None,
    edges: Annotated[int, typer.Option(min=1, max=64, help="Edges, which share the address.")] = 1,
    fd: Annotated[
        list[int] | None,
        typer.Option(min=3, help="A bound socket, inherited, to listen on. Can be repeated."),
    ] = None,
) -> None:
    """Run an edge, or several at one address."""
    from scoregate.edges import run_edges
    from scoregate.shared_address import inherited

    settings = settings_of(None, bind, is_part=edges == 1)
    if edges > 1 and fd:
        raise SettingsError("--fd: expected no inherited socket with --edges, whose edges have one each")
    if edges > 1:
        run_edges(settings, edges)
    else:
        _run_edge(settings, inherited(fd or ()))


def _run_edge(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    import asyncio
    import time

    from gateway.deployment.policies_folder import note_policies_folder
    from gateway.deployment.reload_answers import teller
    from gateway.edge.health.gauges import measure_from_threads
    from gateway.edge.listening import listen
    from gateway.edge_wiring import open_edge, put_in_force
    from gateway.runtime.reload import Reload, reload_when_asked
    from scoregate.metrics import serving_edge_metrics
    from scoregate.parts import run_part

    async def run(signals: Signals, part_file: PartFile) -> None:
        began_ns = time.monotonic_ns()
        async with open_edge(settings) as edge:

            async def put(policies: Policies) -> None:
                put_in_force(edge, policies)

            note_policies_folder(settings, "edge")
            with serving_edge_metrics(settings, measure_from_threads(edge)):
                async with listen(edge, sockets):
                    tell = teller(part_file, edge.catalogue)
                    tell(Reload(began_ns, edge.catalogue.policies))
                    reloading = asyncio.create_task(
                        reload_when_asked(signals.reload, settings, edge.catalogue, put, tell)
                    )
                    await signals.stop.wait()
                    reloading.cancel()
                    await edge.shutdown.pause(settings.shutdown_pause_s, signals.hurry)

    run_part(settings, "edge", run)
