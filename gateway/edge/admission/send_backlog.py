"""What waits to be sent because clients do not take it: for how long, and how much of it there may be.

The kernel takes some of each answer; what it does not is memory of ours until the client reads. Most clients do so at
once. One that does not is cut off, and so are those that have kept us waiting longest when there is too much of it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from contextlib import suppress
from typing import Any, Final, Protocol

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of nothing: closing throws away what the kernel holds, which else waits for the client without us."""

PART_OF_ADDRESS: Final = 4
"""One address may have this part of what may wait in the process, unless it is a proxy's."""


class Transport(Protocol):
    """What is needed of a transport."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken."""
        ...

    def get_extra_info(self, name: str) -> Any:
        """What is known of it by this name, or None."""
        ...

    def abort(self) -> None:
        """Closes it without sending them."""
        ...


class SendBacklog:
    """Who does not take what is sent, longest first, with how much. It belongs to one event loop."""

    def __init__(self, limit_bytes: int, *, is_behind_proxies: bool = False) -> None:
        self._limit_bytes = limit_bytes
        self._address_limit_bytes = limit_bytes if is_behind_proxies else limit_bytes // PART_OF_ADDRESS
        self._held: dict[SendBuffer, int] = {}
        self._of_address: Counter[str] = Counter()
        self.total_bytes = 0

    def weigh(self, buffer: SendBuffer, size_bytes: int) -> None:
        """Notes how much one has waiting, and cuts off the oldest where that is too much in all, or for its address."""
        self._add(buffer, size_bytes - self._held.get(buffer, 0))
        self._held[buffer] = size_bytes
        address = buffer.address
        while self._of_address[address] > self._address_limit_bytes:
            next(each for each in self._held if each.address == address).cut_off()
        while self.total_bytes > self._limit_bytes:
            next(iter(self._held)).cut_off()

    def forget(self, buffer: SendBuffer) -> None:
        """Notes that nothing of one waits any more."""
        self._add(buffer, -self._held.pop(buffer, 0))

    def _add(self, buffer: SendBuffer, size_bytes: int) -> None:
        self.total_bytes += size_bytes
        self._of_address[buffer.address] += size_bytes
        if not self._of_address[buffer.address]:
            del self._of_address[buffer.address]


class SendBuffer:
    """The send buffer of one connection, which holds bytes from `begin` to `end`."""

    __slots__ = ("_backlog", "_handles", "_loop", "_transport", "address")

    def __init__(
        self, backlog: SendBacklog, transport: Transport, address: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._backlog = backlog
        self._transport = transport
        self._loop = loop
        self._handles: tuple[asyncio.Handle, ...] = ()
        self.address = address

    def begin(self, timeout_s: float) -> None:
        """The client does not take all of it. How much waits shows once the whole answer was written."""
        self._handles = (
            self._loop.call_soon(self._weigh),
            self._loop.call_later(timeout_s, self.cut_off),
        )

    def end(self) -> None:
        """Everything was sent, or the connection is gone."""
        self._backlog.forget(self)
        for handle in self._handles:
            handle.cancel()
        self._handles = ()

    def cut_off(self) -> None:
        """Gives up on the client, and on what waits for it, in the kernel too."""
        self.end()
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def _weigh(self) -> None:
        self._backlog.weigh(self, self._transport.get_write_buffer_size())
