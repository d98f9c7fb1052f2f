"""The end of an edge in three phases: a lame duck that still serves, a drain, and the close."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.edge.listener import Connection

IN_FLIGHT_S: Final = 0.25
"""A connection that was quiet for this long has no request on its way. Longer than most round trips to a balancer."""

LOOK_S: Final = 0.02
"""Time between two looks at what is still open. It is only spent while the process ends."""


class Shutdown:
    """Whether this edge is about to end. While it is, every answer asks for its connection to be closed."""

    def __init__(self) -> None:
        self.has_begun = False

    async def pause(self, pause_s: float, hurry: asyncio.Event) -> None:
        """Serve on as a lame duck for `pause_s` seconds, so that balancers see `/readyz` fail; less once `hurry` is set."""
        self.has_begun = True
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await hurry.wait()


async def stop_listening(server: asyncio.Server, admit: Callable[[], asyncio.Protocol]) -> None:
    """Close the listening sockets, and serve the connections that they had already taken.

    The kernel completes handshakes ahead of us; closing a socket resets those it has not handed over. A second
    descriptor of each outlives the server's own until its queue is empty.
    """
    spares = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
    server.close()
    taken = [connection for spare in spares for connection in _emptied(spare)]
    loop = asyncio.get_running_loop()
    for connection in taken:
        with suppress(OSError):
            await loop.connect_accepted_socket(admit, connection)


def _emptied(spare: socket.socket) -> list[socket.socket]:
    taken: list[socket.socket] = []
    with spare, suppress(OSError):  # BlockingIOError: the queue is empty
        while True:
            connection, _ = spare.accept()
            connection.setblocking(False)  # noqa: FBT003 - the standard library has no keyword here
            taken.append(connection)
    return taken


async def drain(connections: Callable[[], Iterable[Connection]], grace_s: float) -> None:
    """Return once no connection is open, or `grace_s` is over. Closes those on which no request has begun."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_s
    while (still_open := list(connections())) and loop.time() < deadline:
        for connection in still_open:
            if connection.quiet_s() > IN_FLIGHT_S:
                connection.force_close()
        await asyncio.sleep(LOOK_S)
