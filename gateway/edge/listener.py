"""Listening: deadlines for slow clients, a cap on connections per address, and an orderly end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from gateway.edge.app import build_app
from gateway.edge.context import Edge
from gateway.telemetry import Event, logger

BACKLOG: Final = 1024

HEADER_TIMEOUT_S: Final = 10.0
"""A connection that has sent no whole request head within this time after it opened is closed."""

HEAD_END: Final = b"\r\n\r\n"

_log = logger()


@asynccontextmanager
async def listening(edge: Edge) -> AsyncIterator[tuple[str, int]]:
    """The address that the edge answers on while the block runs. Requests under way are finished at the end."""
    settings = edge.settings
    runner = web.AppRunner(
        build_app(edge),
        access_log=None,
        auto_decompress=False,
        handle_signals=False,
        keepalive_timeout=settings.keepalive_timeout_s,
        shutdown_timeout=settings.shutdown_grace_s,
        max_line_size=8190,
        max_field_size=8190,
    )
    await runner.setup()
    assert runner.server is not None
    host, port = settings.bind_address
    gate = ConnectionGate(runner.server, settings.connections_per_address, HEADER_TIMEOUT_S)
    server = await asyncio.get_running_loop().create_server(gate.admit, host, port, backlog=BACKLOG)
    bound = server.sockets[0].getsockname()
    _log.info(Event.STARTED, part="edge", host=bound[0], port=bound[1])
    try:
        yield bound[0], bound[1]
    finally:
        server.close()
        await runner.shutdown()
        await runner.server.shutdown(settings.shutdown_grace_s)
        await runner.cleanup()
        _log.info(Event.STOPPED, part="edge")


class ConnectionGate:
    """Makes the protocol of each new connection, unless its address has too many."""

    def __init__(self, factory: Callable[[], Any], limit: int, header_timeout_s: float) -> None:
        self._factory = factory
        self._limit = limit
        self._header_timeout_s = header_timeout_s
        self._open: Counter[str] = Counter()

    def admit(self) -> asyncio.Protocol:
        """The protocol of a connection that is about to open."""
        return GatedProtocol(self._factory(), self, self._header_timeout_s)

    def enter(self, address: str) -> bool:
        """True, and counted, if the address may have one more connection."""
        if self._open[address] >= self._limit:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Counts a connection of the address as gone."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class GatedProtocol(asyncio.Protocol):
    """A protocol around aiohttp's: it counts the connection, and closes it if no request head arrives in time."""

    def __init__(self, inner: Any, gate: ConnectionGate, header_timeout_s: float) -> None:
        self._inner = inner
        self._gate = gate
        self._header_timeout_s = header_timeout_s
        self._address: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head: bytes | None = b""

    def connection_made(self, transport: Any) -> None:
        """Lets the connection in, or closes it at once."""
        address = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._gate.enter(address):
            transport.abort()
            return
        self._address = address
        self._deadline = asyncio.get_running_loop().call_later(self._header_timeout_s, transport.abort)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Counts the connection as gone."""
        if self._deadline:
            self._deadline.cancel()
        if self._address is not None:
            self._gate.leave(self._address)
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Passes on that the client reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Passes on that the client has caught up."""
        self._inner.resume_writing()

    def eof_received(self) -> bool | None:
        """Passes on that the client has sent all."""
        passed_on: bool | None = self._inner.eof_received() if self._address is not None else None
        return passed_on

    def data_received(self, data: bytes) -> None:
        """Passes data on; the first whole request head ends our deadline, from then on aiohttp's own hold."""
        if self._head is not None:
            seen = self._head + data
            self._head = seen[-3:] if HEAD_END not in seen else None
            if self._head is None and self._deadline:
                self._deadline.cancel()
        if self._address is not None:
            self._inner.data_received(data)
