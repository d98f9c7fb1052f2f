"""The Python client's two transports, before a server that says what no gateway would."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scoregate_client import (
    HttpAnswer,
    HttpRequest,
    Unanswered,
    Unconnected,
    aiohttp_transport,
    blocking_transport,
)
from scoregate_client.aiohttp_transport import AiohttpTransport
from scoregate_client.blocking_transport import BlockingTransport
from scoregate_client.running import result_of

from tests.support.certificates import a_certificate

PATIENCE_S = 30.0


class Saying:
    """A server that gives the same bytes for an answer to each request, and then ends the connection or says no more."""

    def __init__(self, answer: bytes, *, ends: bool = True) -> None:
        self._answer = answer
        self._ends = ends
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(self._answer)
        if not self._ends:
            await reader.read()
        writer.close()

    @asynccontextmanager
    async def at(self, certificate: Path | None = None) -> AsyncIterator[int]:
        """The port, while it serves."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if context and certificate:
            context.load_cert_chain(certificate)
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        async with server:
            yield server.sockets[0].getsockname()[1]


async def sent(transport: AiohttpTransport | BlockingTransport, *requests: HttpRequest) -> list[HttpAnswer]:
    """The answers to requests, one after the other, over one transport."""

    async def each() -> list[HttpAnswer]:
        try:
            return [await transport.send(request) for request in requests]
        finally:
            await transport.close()

    async with asyncio.timeout(PATIENCE_S):
        if isinstance(transport, BlockingTransport):
            return await asyncio.to_thread(lambda: result_of(each()))
        return await each()


async def heard(transport: AiohttpTransport | BlockingTransport, request: HttpRequest) -> bytes:
    """What arrives of an answer until it ends, piece by piece."""

    async def all_of_it() -> bytes:
        try:
            async with transport.listen(request) as stream:
                return b"".join([chunk async for chunk in stream.chunks])
        finally:
            await transport.close()

    async with asyncio.timeout(PATIENCE_S):
        if isinstance(transport, BlockingTransport):
            return await asyncio.to_thread(lambda: result_of(all_of_it()))
        return await all_of_it()


both = pytest.mark.parametrize("transport", [AiohttpTransport, BlockingTransport])


@both
async def test_no_more_is_read_of_an_answer_than_was_said(transport: type) -> None:
    """What is longer is told from what is whole: a part of a page or a file is neither."""
    saying = Saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n" + b"x" * 100)
    async with saying.at() as port:
        url = f"http://127.0.0.1:{port}/"
        whole, cut = await sent(
            transport(), *(HttpRequest("GET", url, most_bytes=most) for most in (100, 99))
        )
    assert [(True, b"x" * 100), (False, 200)] == [(whole.is_whole, whole.body), (cut.is_whole, cut.status)]


@both
async def test_no_redirect_is_followed_and_no_cookie_sent_back(transport: type) -> None:
    """The page of a portal gets no token; nothing but the request itself says who asks."""
    saying = Saying(
        b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: seen=1; Path=/\r\n"
        b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    async with saying.at() as port:
        request = HttpRequest("GET", f"http://localhost:{port}/v1/boards", {"Authorization": "Bearer t"})
        answers = await sent(transport(), request, request)
    assert [302, 302] == [answer.status for answer in answers]
    assert ["GET /v1/boards HTTP/1.1"] * 2 == [head.partition("\r\n")[0] for head in saying.heads]
    assert not [head for head in saying.heads if "cookie" in head.lower()]


@both
async def test_a_feed_that_is_silent_for_too_long_is_lost(transport: type) -> None:
    """However long it may last: a router may have forgotten the connection, and nobody would ever hear of it."""
    saying = Saying(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\n", ends=False)
    async with saying.at() as port:
        with pytest.raises(Unanswered) as lost:
            await heard(transport(), HttpRequest("GET", f"http://127.0.0.1:{port}/", silence_s=0.2))
    assert not isinstance(lost.value, Unconnected)
    assert 1 == len(saying.heads)


@both
async def test_an_answer_that_trickles_is_given_up_in_its_time(transport: type) -> None:
    """However little silence there is in it: a game does not wait a day for a page."""
    has_left = asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        leaving = asyncio.create_task(reader.read())
        while not leaving.done():
            writer.write(b"x")
            await asyncio.wait({leaving}, timeout=0.02)
        has_left.set()
        writer.close()

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(Unanswered) as late:
            await sent(transport(), HttpRequest("GET", url, within_s=0.3))
        await asyncio.wait_for(has_left.wait(), PATIENCE_S)
    assert not isinstance(late.value, Unconnected)


@pytest.mark.skipif(sys.platform != "linux", reason="how a full listener answers is the system's")
@both
@pytest.mark.parametrize("is_feed", [True, False])
async def test_an_address_that_swallows_everything_is_not_connected_to(
    transport: type, monkeypatch: pytest.MonkeyPatch, *, is_feed: bool
) -> None:
    """As a firewall does: it is given up long before an answer would be, and whatever was asked did nothing."""
    for module in (aiohttp_transport, blocking_transport):
        monkeypatch.setattr(module, "CONNECT_S", 0.1)
    request = HttpRequest("POST", "", silence_s=45.0) if is_feed else HttpRequest("POST", "")
    with socket.socket() as full, ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # nobody accepts them, so that the kernel drops whoever comes now
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/"
        with pytest.raises(Unconnected):
            await heard(transport(), replace(request, url=url))


async def test_a_gateway_with_a_certificate_of_its_own_is_known_by_the_callers_context(
    tmp_path: Path,
) -> None:
    """And by no other."""
    certificate = a_certificate(tmp_path / "server.pem")
    saying = Saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    async with saying.at(certificate) as port:
        request = HttpRequest("GET", f"https://127.0.0.1:{port}/")
        context = ssl.create_default_context(cafile=str(certificate))
        [answer] = await sent(BlockingTransport(context), request)
        with pytest.raises(Unconnected):
            await sent(BlockingTransport(), request)
    assert (200, b"{}", 1) == (answer.status, answer.body, len(saying.heads))
