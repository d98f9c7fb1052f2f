"""A client that sends exactly the bytes it is given, where a real one would put right what we want wrong."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from multidict import CIMultiDict

from tests.support.harness import Answer, Request

PATIENCE_S = 10.0


def as_bytes(
    request: Request,
    authority: str,
    *,
    line: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    length: int | None = None,
) -> bytes:
    """A request as it goes over the wire; `line`, `headers`, `body` and `length` replace what is honest."""
    sent = request.body if body is None else body
    fields = {"Host": authority, "Content-Length": str(len(sent) if length is None else length)}
    fields |= request.headers | dict(headers or {})
    head = [
        line or f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join(head).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + sent


class RawConnection:
    """One connection to an edge."""

    def __init__(self, authority: str) -> None:
        host, _, port = authority.rpartition(":")
        self._where = (host, int(port))

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(*self._where)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> Answer:
        """The next response with a length."""
        async with asyncio.timeout(PATIENCE_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = CIMultiDict(tuple(line.split(": ", 1)) for line in head[1:] if line)
            raw = await self._reader.readexactly(int(headers.get("Content-Length", "0")))
        return Answer(int(head[0].split()[1]), headers, raw)

    async def is_closed(self) -> bool:
        """True once the other side has closed, with nothing more sent; False if it has not in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._reader.read(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    async def line(self) -> bytes:
        """The next line."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.readline()

    def reset(self) -> None:
        """Ends the connection without a goodbye."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def exchange(authority: str, data: bytes) -> Answer:
    """The answer to these bytes on a connection of their own."""
    async with RawConnection(authority) as connection:
        await connection.send(data)
        return await connection.answer()
