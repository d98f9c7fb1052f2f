"""Sends prepared submissions over a few connections, with less work than a client library."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, cast

CONNECTIONS: Final = 64

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)")


class Submissions:
    """Requests that connections share. `refusals` are answers other than a 202, of which one is too many."""

    def __init__(self, requests: Iterable[bytes]) -> None:
        self.left = iter(requests)
        self.refusals: list[bytes] = []
        self._ended = asyncio.Semaphore(0)

    async def send(self, port: int, connections: int) -> None:
        """Send all over so many connections. Ends the program if one was refused."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(lambda: _Connection(self), "127.0.0.1", port)
        for _ in range(connections):
            await self._ended.acquire()
        if self.refusals:
            sys.exit(f"a run was refused: {self.refusals[0]!r}")

    def end(self) -> None:
        """Note that a connection found nothing more to send."""
        self._ended.release()


class _Connection(asyncio.Protocol):
    """A connection that sends the next request once the one before it is answered."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions
        self._answer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 202"):
            self._submissions.refusals.append(self._answer)
        self._answer = b""
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        request = None if self._submissions.refusals else next(self._submissions.left, None)
        if request is None:
            self._transport.close()
            self._submissions.end()
        else:
            self._transport.write(request)


async def submit_all(port: int, requests: Sequence[bytes]) -> None:
    """Send all requests as fast as they are answered."""
    await Submissions(requests).send(port, CONNECTIONS)


async def submit_paced(port: int, requests: Sequence[bytes], rate: float) -> list[float]:
    """Send requests at even times, whatever becomes of earlier ones; return when each was answered (s)."""
    began_s = time.monotonic()

    async def answered_s(number: int) -> float:
        await asyncio.sleep(max(0.0, began_s + number / rate - time.monotonic()))
        await Submissions(requests[number : number + 1]).send(port, connections=1)
        return time.monotonic()

    return await asyncio.gather(*map(answered_s, range(len(requests))))
