"""Starts several edges at one address, and keeps them up."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.runtime.settings import Settings
from scoregate.processes import STOP_S, Supervisor, obeying_signals, python
from scoregate.shared_address import SharedAddress, sharing

START_S: Final = 60.0
"""Time for the edges to listen. Imports alone take long on a busy machine; a dead edge ends the wait."""

SPARE_S: Final = 5.0
"""Time that an edge gets to end beyond its pause and its grace."""


def run_edges(settings: Settings, count: int) -> None:
    """Run this many edges at the address of the settings, until a signal ends them.

    Raises PartFailed or SettingsError.
    """
    supervisor = Supervisor(None, stop_s_of(settings))
    with sharing(settings.bind, count) as address, obeying_signals(supervisor):
        try:
            start_edges(supervisor, settings, address, count, os.environ)
            supervisor.keep_up()
        finally:
            supervisor.stop()


def start_edges(
    supervisor: Supervisor,
    settings: Settings,
    address: SharedAddress,
    count: int,
    environment: Mapping[str, str],
) -> None:
    """Start the edges, and return once all of them listen. Raises PartFailed."""
    at_address = {**environment, "SCOREGATE_BIND": address.bind}
    for place, name in enumerate(names_of("edge", count)):
        metrics = metrics_bind_of(settings, place)
        supervisor.start(name, python("serve"), at_address | metrics, address=address)
    edges = "the edge" if count == 1 else "the edges"
    supervisor.await_ready(supervisor.are_listening, START_S, f"{edges} to listen on {address.bind}")


def names_of(kind: str, count: int) -> Sequence[str]:
    """Return the names of the parts of a kind; one that is alone has no number."""
    return [kind] if count == 1 else [f"{kind}-{number}" for number in range(1, count + 1)]


def metrics_bind_of(settings: Settings, place: int) -> dict[str, str]:
    """Return the variable of a part's metrics: a port `place` after the configured one, if there is one."""
    if settings.metrics_bind is None:
        return {}
    host, _, port = settings.metrics_bind.rpartition(":")
    return {"SCOREGATE_METRICS_BIND": f"{host}:{int(port) + place}"}


def stop_s_of(settings: Settings) -> float:
    """Return how long a part may take to end."""
    return max(STOP_S, settings.shutdown_pause_s + settings.shutdown_grace_s + SPARE_S)
