"""The transport of the synchronous clients, over the standard library."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from urllib.parse import urlsplit

from .transport import CONNECT_S, WITHIN_S, HttpAnswer, HttpRequest, HttpStream, Unanswered, Unconnected

_CHUNK_BYTES = 64 * 1024
_FRAMING = ("content-length", "transfer-encoding")
"""The fields one of which says where an answer ends, unless the end of the connection does."""


class BlockingTransport:
    """Carries requests, each over a connection of its own. Its coroutines block, and never suspend."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request and return the whole answer."""
        async with self.listen(request) as stream:
            body = bytearray()
            async for chunk in stream.chunks:
                body += chunk
                if len(body) > request.most_bytes:
                    return HttpAnswer(stream.status, stream.headers, bytes(body), is_whole=False)
            is_success = stream.status < HTTPStatus.MULTIPLE_CHOICES
            if is_success and not body and stream.headers.keys().isdisjoint(_FRAMING):
                # The standard library takes the end of a connection for the end of a head.
                raise Unanswered("the answer ended before its head did")
            return HttpAnswer(stream.status, stream.headers, bytes(body))

    @asynccontextmanager
    async def listen(self, request: HttpRequest) -> AsyncGenerator[HttpStream, None]:
        """Send a request and give the answer as it arrives."""
        is_endless = request.within_s is None and request.silence_s is not None
        within_s = float("inf") if is_endless else request.within_s or WITHIN_S
        deadline_s = time.monotonic() + within_s
        with closing(self._connected(request)) as connection:
            carrier = _Carrier(connection.sock, deadline_s, request.silence_s or within_s)
            target = urlsplit(request.url)
            path = f"{target.path or '/'}?{target.query}" if target.query else target.path or "/"
            with _told():
                carrier.limit()
                connection.request(request.method, path, request.body, dict(request.headers))
                carrier.limit()
                response = connection.getresponse()
            with closing(response):
                headers = {name.lower(): value for name, value in response.getheaders()}
                yield HttpStream(response.status, headers, _chunks(response, carrier))

    async def close(self) -> None:
        """Do nothing: every connection is closed after its exchange."""

    def _connected(self, request: HttpRequest) -> HTTPConnection:
        target = urlsplit(request.url)
        host, port = target.hostname or "", target.port
        connection: HTTPConnection
        if target.scheme == "https":
            connection = HTTPSConnection(host, port, timeout=CONNECT_S, context=self._context)
        else:
            connection = HTTPConnection(host, port, timeout=CONNECT_S)
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            raise Unconnected(str(error)) from error
        return connection


class _Carrier:
    """The socket of an exchange, and the time that is left for it."""

    def __init__(self, sock: socket, deadline_s: float, silence_s: float) -> None:
        self._socket = sock
        self._deadline_s = deadline_s
        self._silence_s = silence_s

    def limit(self) -> None:
        """Let the next step take no longer than what is left. Raises TimeoutError if nothing is."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer took too long")
        self._socket.settimeout(min(left_s, self._silence_s))


async def _chunks(response: HTTPResponse, carrier: _Carrier) -> AsyncIterator[bytes]:
    with _told():
        while not response.isclosed():  # CPython 3.13 closes it with its last byte, and the socket too
            carrier.limit()
            chunk = response.read1(_CHUNK_BYTES)
            if not chunk:
                break
            yield chunk
        if response.length:  # read1 does not tell a connection that ended early
            raise Unanswered("the answer ended early")


@contextmanager
def _told() -> Iterator[None]:
    """Raise what the clients know for what the standard library raises."""
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:
        raise Unanswered(str(error) or type(error).__name__) from error
