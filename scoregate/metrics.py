"""Serves a part's metrics on an address for operators alone."""

from __future__ import annotations

import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gateway.runtime.settings import EDGE_METRICS_BIND, Settings, host_and_port
from gateway.runtime.telemetry import REGISTRY, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import SettingsError

KEPT_S: Final = 1.0
"""How long one rendering serves everybody: it takes tens of milliseconds, and asks the ledger."""

CLIENT_S: Final = 5.0
"""Time for a scraper to send its request, and to take the answer."""

LOOK_S: Final = 0.1
"""Interval at which the server notices its end, which a stopping part waits for."""

_log = logger()


class Rendering:
    """The metrics of the process in Prometheus' text format, for any number of threads."""

    def __init__(
        self, refresh: Callable[[], None] | None = None, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the function that sets gauges before each rendering."""
        self._refresh = refresh
        self._monotonic_s = monotonic_s
        self._turn = threading.Lock()
        self._text = b""
        self._kept_until_s = -math.inf

    def text(self) -> bytes:
        """Return the metrics, at most KEPT_S old."""
        with self._turn:
            if self._monotonic_s() >= self._kept_until_s:
                if self._refresh:
                    self._refresh()
                self._text = generate_latest(REGISTRY)
                self._kept_until_s = self._monotonic_s() + KEPT_S
            return self._text


@contextmanager
def serving_metrics(settings: Settings, refresh: Callable[[], None] | None = None) -> Iterator[None]:
    """Serve this process's metrics while the block runs, if the settings have an address.

    Raises SettingsError if it cannot listen there.
    """
    if settings.metrics_bind is None:
        yield
        return
    try:
        server = _server(settings.metrics_bind, refresh)
    except OSError as error:
        raise SettingsError(f"SCOREGATE_METRICS_BIND: {settings.metrics_bind}: {error}") from None
    with _serving(server):
        yield


@contextmanager
def serving_edge_metrics(settings: Settings, refresh: Callable[[], None]) -> Iterator[None]:
    """Serve an edge's metrics while the block runs, on the loopback if the settings have no address.

    Another edge of this machine may hold that address. Then they are not served, and the log says so.
    """
    if settings.metrics_bind is not None:
        with serving_metrics(settings, refresh):
            yield
        return
    try:
        server = _server(EDGE_METRICS_BIND, refresh)
    except OSError as error:
        _log.warning(Event.METRICS_UNSERVED, bind=EDGE_METRICS_BIND, error=str(error))
        yield
        return
    with _serving(server):
        yield


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], rendering: Rendering) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.rendering = rendering
        super().__init__(address, _Scrape)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - inherited
        """Report the fault of a scrape, unless its client left or never sent a request."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            report(FaultPlace.METRICS, error)


class _Scrape(BaseHTTPRequestHandler):
    timeout = CLIENT_S
    server: _Server

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] == "/metrics"
        text = self.server.rendering.text() if is_known else b""
        self.send_response_only(HTTPStatus.OK if is_known else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def version_string(self) -> str:
        return "scoregate"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing."""


def _server(bind: str, refresh: Callable[[], None] | None) -> _Server:
    return _Server(host_and_port(bind), Rendering(refresh))


@contextmanager
def _serving(server: _Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(LOOK_S,), name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
