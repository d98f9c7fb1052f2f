"""Serving the metrics of a part that has no socket of its own: the steward, a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server

from gateway.settings import Settings
from gateway.telemetry import REGISTRY
from policies.errors import SettingsError


@contextmanager
def serving_metrics(settings: Settings) -> Iterator[None]:
    """Serves this process's metrics while the block runs, where the settings say, or nowhere.

    Raises SettingsError if it cannot listen there.
    """
    if settings.metrics_address is None:
        yield
        return
    host, port = settings.metrics_address
    try:
        server, thread = start_http_server(port, host, registry=REGISTRY)
    except OSError as error:
        raise SettingsError(f"SCOREGATE_METRICS_BIND: {settings.metrics_bind}: {error}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
