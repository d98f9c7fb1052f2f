"""A server that takes every connection and then does to it what no protocol foresees."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum


class Manner(Enum):
    """How a server treats a connection. The value is its answer to anything, before it hangs up."""

    RESET = b""
    RESET_AT_ONCE = None
    HANG = "hang"
    CUT = b"$100\r\nhalf of"
    NOISE = b"\x00\xff\x15\x03garbage\r\n\r\n"
    NEGATIVE = b"*-7\r\n$-9\r\n:nine\r\n"
    OTHER_TYPE = b"+OK\r\n" * 64
    OTHER_COUNT = b"*1\r\n$1\r\n\xff\r\n" * 64
    NO_TEXT = b"$2\r\n\xff\xfe\r\n" * 64
    NUMBERS = b":7\r\n" * 64
    REFUSAL = b"-OOM command not allowed when used memory > 'maxmemory'\r\n" * 64
    STRANGE_REFUSAL = b"-\r\n" * 64


class HostileServer:
    """Answers every connection in the one manner that is set, which may change at any time."""

    def __init__(self) -> None:
        self.manner = Manner.RESET
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        manner = self.manner
        with suppress(OSError):
            if manner is not Manner.RESET_AT_ONCE:
                await self._answer(manner, reader, writer)
        self._cut(writer)

    async def _answer(
        self, manner: Manner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while await reader.read(65_536) and manner is self.manner:
            if isinstance(manner.value, bytes):
                writer.write(manner.value)
                await writer.drain()
            if manner in {Manner.RESET, Manner.CUT}:
                return

    def _cut(self, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


@asynccontextmanager
async def hostile_server() -> AsyncIterator[HostileServer]:
    """The server, on a port of its own."""
    hostile = HostileServer()
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        for task in list(hostile.tasks):
            task.cancel()
        await asyncio.gather(*hostile.tasks, return_exceptions=True)
