"""Listening: an edge takes connections at its address while it serves, and ends in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from gateway.edge.app import build_app, refuse_expectations
from gateway.edge.connections import Connection, ConnectionGate
from gateway.edge.context import Edge
from gateway.edge.shutdown import drain, stop_listening
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger
from policies.errors import SettingsError

BACKLOG: Final = 1024

CLOSE_S: Final = 0.1
"""Time that requests still under way after the grace have to end once they are cancelled."""

_log = logger()


@asynccontextmanager
async def listen(edge: Edge, sockets: Sequence[socket.socket] = ()) -> AsyncIterator[tuple[str, int]]:
    """Listen while the block runs, on these bound sockets if there are any, and yield the host and port.

    At the end, finish every request whose first byte has come. Raises SettingsError if the address cannot be
    bound.
    """
    settings = edge.settings
    app = build_app(edge)
    runner = web.AppRunner(app, shutdown_timeout=CLOSE_S)
    await runner.setup()
    assert runner.server is not None
    runner.server.request_handler = refuse_expectations(runner.server.request_handler)
    runner.server.request_factory = _noting(runner.server.request_factory)
    gate = ConnectionGate(edge, app, runner.server)
    try:
        servers = await _servers(gate, settings, sockets)
    except OSError as error:
        await runner.cleanup()
        detail = f"cannot listen on {settings.bind}: {error.strerror or error}"
        raise SettingsError(f"SCOREGATE_BIND: {detail}") from None
    host, port = servers[0].sockets[0].getsockname()[:2]
    _log.info(Event.STARTED, part="edge", host=host, port=port)
    if settings.development:
        _log.warning(Event.DEVELOPMENT_MODE, unset="SCOREGATE_DEVELOPMENT")
    try:
        yield host, port
    finally:
        edge.shutdown.has_begun = True
        for server in servers:
            await stop_listening(server, gate.admit)
        edge.live.release()
        await drain(lambda: gate.connections, settings.shutdown_grace_s)
        await runner.cleanup()
        _log.info(Event.STOPPED, part="edge")


def _noting(make_request: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    """Return what makes requests, and tells the connection of each that it is taken up."""

    def made(message: Any, payload: Any, connection: Connection, *rest: Any) -> web.BaseRequest:
        connection.take_up()
        return make_request(message, payload, connection, *rest)

    return made


async def _servers(
    gate: ConnectionGate, settings: Settings, sockets: Sequence[socket.socket]
) -> list[asyncio.Server]:
    """Listen on the sockets, or at the address of the settings without any. Raises OSError."""
    loop = asyncio.get_running_loop()
    if sockets:
        return [await loop.create_server(gate.admit, sock=sock, backlog=BACKLOG) for sock in sockets]
    host, port = settings.bind_address
    return [await loop.create_server(gate.admit, host, port, backlog=BACKLOG)]
