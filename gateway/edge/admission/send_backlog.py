"""Bounds on bytes that wait to be sent, in time and size.

The kernel takes a part of each answer; the rest stays in the edge's memory until the client reads. Most
clients read at once. One that does not is cut off after a time, and the oldest are cut off earlier if too
many bytes wait.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from contextlib import suppress
from typing import Any, Final, Protocol

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero: closing drops the kernel's bytes, which would wait for the client without the edge."""

ADDRESS_PART: Final = 4
"""An address may have one part in this many of the process' limit, unless the edge is behind proxies."""


class Transport(Protocol):
    """The methods that are used of a transport."""

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the kernel has not taken."""
        ...

    def get_extra_info(self, name: str) -> Any:
        """Return a fact about the connection, or None."""
        ...

    def abort(self) -> None:
        """Close the connection and drop its bytes."""
        ...


class SendBacklog:
    """The send buffers that hold bytes, oldest first, with their sizes. It belongs to one event loop."""

    def __init__(self, limit_bytes: int, *, is_behind_proxies: bool = False) -> None:
        self._limit_bytes = limit_bytes
        self._address_limit_bytes = limit_bytes if is_behind_proxies else limit_bytes // ADDRESS_PART
        self._sizes: dict[SendBuffer, int] = {}
        self._bytes_by_address: Counter[str] = Counter()
        self.total_bytes = 0

    def weigh(self, buffer: SendBuffer, size_bytes: int) -> None:
        """Note the size of a buffer, and cut off the oldest while its address or the process has too much."""
        self._add(buffer, size_bytes - self._sizes.get(buffer, 0))
        self._sizes[buffer] = size_bytes
        address = buffer.address
        while self._bytes_by_address[address] > self._address_limit_bytes:
            next(oldest for oldest in self._sizes if oldest.address == address).cut_off()
        while self.total_bytes > self._limit_bytes:
            next(iter(self._sizes)).cut_off()

    def forget(self, buffer: SendBuffer) -> None:
        """Note that a buffer is empty."""
        self._add(buffer, -self._sizes.pop(buffer, 0))

    def _add(self, buffer: SendBuffer, size_bytes: int) -> None:
        self.total_bytes += size_bytes
        self._bytes_by_address[buffer.address] += size_bytes
        if not self._bytes_by_address[buffer.address]:
            del self._bytes_by_address[buffer.address]


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
        """Start the client's deadline; the size is noted after the whole answer was written."""
        self._handles = (
            self._loop.call_soon(self._weigh),
            self._loop.call_later(timeout_s, self.cut_off),
        )

    def end(self) -> None:
        """Stop the deadline: everything was sent, or the connection is lost."""
        self._backlog.forget(self)
        for handle in self._handles:
            handle.cancel()
        self._handles = ()

    def cut_off(self) -> None:
        """Close the connection and drop its bytes, those in the kernel too."""
        self.end()
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def _weigh(self) -> None:
        self._backlog.weigh(self, self._transport.get_write_buffer_size())
