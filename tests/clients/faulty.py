"""A proxy before an edge that treats single requests as bad networks, gateways and captive portals do."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto

LONGEST_HEAD = 65_536
PATIENCE_S = 20.0


class Cut(Enum):
    """Where the connection is reset."""

    BEFORE = auto()
    """The edge never sees the request."""
    AFTER = auto()
    """The edge answers it; the answer never arrives."""
    NEVER = auto()
    """The same, and the connection stays until the client leaves."""


@dataclass(frozen=True)
class Canned:
    """An answer by somebody else: the edge never sees the request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        told = {"Content-Length": str(len(self.body)), "Connection": "close"} | dict(self.headers)
        lines = [
            f"HTTP/1.1 {self.status} Said",
            *(f"{name}: {value}" for name, value in told.items() if value),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


Fault = Cut | Canned | bytes
"""What becomes of a request: bytes are sent for an answer as they are, and then the connection ends."""


@dataclass
class Exchange:
    """A request as it came, and what the edge answered: nothing, if it never saw the request."""

    head: bytes
    body: bytes
    answer: bytes = b""
    at_s: float = field(default_factory=time.monotonic)
    """When it began."""

    @property
    def line(self) -> str:
        """Method and target."""
        return self.head.split(b"\r\n", 1)[0].decode().rpartition(" ")[0]

    @property
    def fields(self) -> dict[str, str]:
        """The header fields, by names in lower case; each must be there once."""
        found: dict[str, str] = {}
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                assert name.lower() not in found, f"{name} was sent twice"
                found[name.lower()] = value.strip()
        return found

    @property
    def status(self) -> int:
        """The status that the edge answered with, 0 without an answer."""
        return int(self.answer.split(b" ", 2)[1]) if self.answer else 0


@dataclass
class _Rule:
    target: re.Pattern[str]
    fault: Fault
    times: int


class FaultyProxy:
    """One request a connection. What it does runs in the loop that serves; tests ask from their own thread."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._rules: list[_Rule] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.exchanges: list[Exchange] = []
        self.answered: Callable[[Exchange], None] = lambda _: None

    def on(self, target: str, fault: Fault, times: int = 1) -> None:
        """Have the next requests whose method and target match the pattern meet this fault."""
        self._rules.append(_Rule(re.compile(target), fault, times))

    def forget(self) -> None:
        """Take every fault back, and forget what came."""
        self._rules.clear()
        self.exchanges.clear()

    def seen(self, target: str) -> list[Exchange]:
        """What came so far and matches the pattern."""
        return [each for each in tuple(self.exchanges) if re.search(target, each.line)]

    def await_answer(self, target: str, text: bytes = b"", count: int = 1) -> None:
        """Return once so many matching requests have had an answer with these bytes in it."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(bool(each.answer) and text in each.answer for each in self.seen(target)) < count:
            assert time.monotonic() < deadline, (
                f"no {target} with {text!r}: {[e.line for e in self.exchanges]}"
            )
            time.sleep(0.005)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._exchange(reader, writer)
        finally:
            writer.close()

    async def end(self) -> None:
        """End what is still being served."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        exchange = Exchange(head, b"")
        if "expect" in exchange.fields:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        exchange.body = await _body(exchange.fields, reader)
        self.exchanges.append(exchange)
        fault = self._fault_of(exchange.line)
        if fault is Cut.BEFORE:
            return _reset(writer)
        if isinstance(fault, Canned | bytes):
            writer.write(fault if isinstance(fault, bytes) else fault.raw())
            return await writer.drain()
        if isinstance(fault, Cut):
            await self._forward(exchange, None)
        else:
            leaving = asyncio.create_task(reader.read(1))
            forwarding = asyncio.create_task(self._forward(exchange, writer))
            await asyncio.wait((leaving, forwarding), return_when=asyncio.FIRST_COMPLETED)
            for task in (leaving, forwarding):
                task.cancel()
            await asyncio.gather(leaving, forwarding, return_exceptions=True)
        if fault is Cut.NEVER:
            await reader.read()
        return _reset(writer) if isinstance(fault, Cut) else None

    async def _forward(self, exchange: Exchange, client: asyncio.StreamWriter | None) -> None:
        """Have the edge answer."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(_for_the_edge(exchange))
            while received := await reader.read(LONGEST_HEAD):
                exchange.answer += received
                self.answered(exchange)  # before the client can know
                if client:
                    client.write(received)
                    await client.drain()
        finally:
            writer.close()

    def _fault_of(self, line: str) -> Fault | None:
        for rule in self._rules:
            if rule.times and rule.target.search(line):
                rule.times -= 1
                return rule.fault
        return None


async def _body(fields: Mapping[str, str], reader: asyncio.StreamReader) -> bytes:
    if "chunked" not in fields.get("transfer-encoding", ""):
        return await reader.readexactly(int(fields.get("content-length", "0")))
    body = b""
    while length := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(length)
        await reader.readline()
    await reader.readline()
    return body


def _for_the_edge(exchange: Exchange) -> bytes:
    """The request with its length told, and an end of the connection after the answer."""
    changed = (b"connection:", b"expect:", b"transfer-encoding:", b"content-length:", b"keep-alive:")
    lines = [line for line in exchange.head.split(b"\r\n") if line and not line.lower().startswith(changed)]
    if exchange.body or not exchange.line.startswith(("GET", "HEAD", "DELETE")):
        lines.append(f"Content-Length: {len(exchange.body)}".encode())
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + exchange.body


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
