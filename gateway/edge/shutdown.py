"""The shutdown of an edge in three phases: lame duck (it still serves), drain, close."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

IN_FLIGHT_S: Final = 0.25
"""Quiet time after which no request is on its way; longer than most round trips to a balancer."""

LOOK_S: Final = 0.02
"""Time between two looks at the open connections. It is only spent while the process ends."""


class Shutdown:
    """The state of an edge that may be about to end. Once it is, every answer closes its connection."""

    def __init__(self) -> None:
        self.has_begun = False

    async def pause(self, pause_s: float, hurry: asyncio.Event) -> None:
        """Serve on for `pause_s` seconds, or until `hurry` is set, so that balancers see `/readyz` fail."""
        self.has_begun = True
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await hurry.wait()


async def stop_listening(server: asyncio.Server, admit: Callable[[], asyncio.Protocol]) -> None:
    """Close the listening sockets, and serve the connections that the kernel had already accepted.

    The kernel completes handshakes before anybody accepts them, and closing a socket resets those that still
    wait. A second descriptor of each socket keeps it open until its queue is empty.
    """
    duplicates = [socket.socket(fileno=os.dup(listener.fileno())) for listener in server.sockets]
    server.close()
    connections = [connection for duplicate in duplicates for connection in _accept_all(duplicate)]
    loop = asyncio.get_running_loop()
    for connection in connections:
        with suppress(OSError):
            await loop.connect_accepted_socket(admit, connection)


def _accept_all(listener: socket.socket) -> list[socket.socket]:
    connections: list[socket.socket] = []
    with listener, suppress(OSError):  # BlockingIOError: the queue is empty
        while True:
            connection, _ = listener.accept()
            connection.setblocking(False)  # noqa: FBT003 - the standard library has no keyword here
            connections.append(connection)
    return connections


async def drain(connections: Callable[[], Iterable[Connection]], grace_s: float) -> None:
    """Return once no connection is open or `grace_s` is over, closing connections without a request."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_s
    while (still_open := list(connections())) and loop.time() < deadline:
        for connection in still_open:
            if connection.quiet_s() > IN_FLIGHT_S:
                connection.force_close()
        await asyncio.sleep(LOOK_S)
