"""A TCP proxy that does what networks do: delays, silence, resets, and replies that never arrive.

It stands between one of our parts and Redis, whose commands and replies it can tell apart (RESP2 and RESP3).
For other protocols `framing=as_it_comes` takes whatever arrives together as one message. That is enough to
cut a connection before or after an answer if each side waits for the other, as PostgreSQL's driver does.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto

READ_BYTES = 65_536

Framing = Callable[[bytes], int | None]
"""The length of the first message in a buffer, None while it is not whole."""


class Fate(Enum):
    """What becomes of a command."""

    PASS = auto()
    RESET_BEFORE = auto()
    """The connection is reset, and the server never sees it."""
    RESET_AFTER = auto()
    """The server does it; the connection is reset in place of the reply."""
    DROP_REPLY = auto()
    """The server does it; the reply never comes, and the connection stays."""


@dataclass
class _Rule:
    matches: Callable[[bytes], bool]
    fate: Fate
    nth: int
    seen: int = 0

    def applies(self, message: bytes) -> bool:
        if not self.matches(message):
            return False
        self.seen += 1
        return self.seen == self.nth


@dataclass(eq=False)
class _Pair:
    """A client's connection and its own to the server, with what becomes of the replies that are due."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    fates: deque[Fate] = field(default_factory=deque)

    def reset(self) -> None:
        connection = self.client.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()
        self.server.transport.abort()


class ChaosProxy:
    """Passes everything on until told otherwise. Faults may be set while connections are open."""

    def __init__(self, upstream: str, framing: Framing) -> None:
        self._upstream = upstream
        self._framing = framing
        self._pairs: set[_Pair] = set()
        self._rules: list[_Rule] = []
        self._is_flowing = asyncio.Event()
        self._is_flowing.set()
        self.delay_s = 0.0
        """How long every reply is held back."""
        self.applied: list[Fate] = []
        """Every fate that a rule gave, in order."""
        self.port = 0
        self.serving: set[asyncio.Task[None]] = set()
        self.is_over = False

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def on(self, matches: Callable[[bytes], bool], fate: Fate, nth: int = 1) -> None:
        """Gives this fate to the n-th message from now that matches, once."""
        self._rules.append(_Rule(matches, fate, nth))

    def forget(self) -> None:
        """Takes back every fate that no message has met."""
        self._rules.clear()

    def freeze(self) -> None:
        """Half-open: connections stay, can even be made, and nothing passes."""
        self._is_flowing.clear()

    def thaw(self) -> None:
        self._is_flowing.set()

    def reset_all(self) -> int:
        """Resets every open connection; how many there were."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        try:
            upstream_reader, upstream = await self._connect()
        except OSError:  # refused there, so refused here
            return writer.transport.abort()
        pair = _Pair(writer, upstream)
        if self.is_over:  # it came while the others were reset
            return pair.reset()
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._commands(reader, pair)),
            asyncio.create_task(self._replies(upstream_reader, pair)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._pairs.discard(pair)
            for end in (writer, upstream):
                end.close()
        return None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream.startswith("/"):
            return await asyncio.open_unix_connection(self._upstream)
        host, _, port = self._upstream.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _commands(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        async for message in self._messages(reader):
            fate = self._fate_of(message)
            if fate is Fate.RESET_BEFORE:
                return pair.reset()
            pair.fates.append(fate)
            pair.server.write(message)
            await pair.server.drain()
        return None

    async def _replies(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        async for message in self._messages(reader):
            fate = pair.fates.popleft() if pair.fates else Fate.PASS
            if fate is Fate.RESET_AFTER:
                return pair.reset()
            if fate is Fate.DROP_REPLY:
                continue
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            pair.client.write(message)
            await pair.client.drain()
        return None

    async def _messages(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        buffer = b""
        with suppress(ConnectionError):
            while received := await reader.read(READ_BYTES):
                buffer += received
                while (end := self._framing(buffer)) is not None:
                    await self._is_flowing.wait()
                    yield buffer[:end]
                    buffer = buffer[end:]

    def _fate_of(self, message: bytes) -> Fate:
        applying = [rule for rule in self._rules if rule.applies(message)]
        if not applying:
            return Fate.PASS
        self._rules.remove(applying[0])
        self.applied.append(applying[0].fate)
        return applying[0].fate


@asynccontextmanager
async def chaos_proxy(upstream: str, framing: Framing | None = None) -> AsyncIterator[ChaosProxy]:
    """A proxy on a port of its own before `host:port` or the path of a Unix socket."""
    proxy = ChaosProxy(upstream, framing or end_of_resp)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.is_over = True
        proxy.thaw()
        proxy.reset_all()
        await asyncio.gather(*proxy.serving, return_exceptions=True)


def as_it_comes(buffer: bytes) -> int | None:
    """Whatever arrived together is one message."""
    return len(buffer) or None


def is_a_commit(message: bytes) -> bool:
    """Whether a message to PostgreSQL has the writer's own COMMIT in it."""
    return b"COMMIT\0" in message


def end_of_resp(buffer: bytes, at: int = 0) -> int | None:
    """Return the end of the RESP value at `at`, None while it is incomplete (redis.io, RESP)."""
    line_end = buffer.find(b"\r\n", at)
    if line_end < 0:
        return None
    kind, after = buffer[at : at + 1], line_end + 2
    if kind in b"+-:_,#(":
        return after
    count = int(buffer[at + 1 : line_end])
    if kind in b"$=!":
        end = after if count < 0 else after + count + 2
        return end if end <= len(buffer) else None
    return _end_of_all(buffer, after, count * 2 if kind in b"%|" else count)


def _end_of_all(buffer: bytes, at: int, count: int) -> int | None:
    end: int | None = at
    for _ in range(count):
        end = end_of_resp(buffer, end) if end is not None else None
    return end


def command_of(message: bytes) -> list[bytes]:
    """The words of a command as clients send it: an array of bulk strings."""
    words, at = [], message.index(b"\r\n") + 2
    while at < len(message):
        start = message.index(b"\r\n", at) + 2
        length = int(message[at + 1 : start - 2])
        words.append(message[start : start + length])
        at = start + length + 2
    return words
