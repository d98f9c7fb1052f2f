"""Why an endpoint gave no answer: in words for its operator, and in one word for the ledger and the log."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientOSError,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ConnectionKey

from gateway.derived.webhooks.faults import in_words, outcome_of
from gateway.derived.webhooks.sender import EndpointResponse, Sender
from gateway.ledger.derived.webhooks import Webhook
from gateway.runtime.settings import Settings

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names(AbstractResolver):
    """A resolver that knows one private address, or no name at all."""

    def __init__(self, address: str = "") -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not self._address:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        found = {"hostname": host, "host": self._address, "port": port, "family": family}
        return [ResolveResult(**found, proto=0, flags=0)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        pass


async def tried(url: str, resolver: AbstractResolver | None = None) -> EndpointResponse:
    """What a trial of an endpoint ends with."""
    settings = Settings(webhook_hosts=("127.0.0.1",), webhook_timeout_s=0.5)
    sender = Sender(settings, None, clock=lambda: 1_000, resolver=resolver)  # type: ignore[arg-type]
    return await sender.send(Webhook("wh_1", url, bytes(32), ("*",), ("*",), 0), "e-1", b"{}")


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """The port of an endpoint of a test's own."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "hooks.example.com: the name does not resolve"),
        (
            "10.0.0.1",
            "hooks.example.com has no public address; name it in SCOREGATE_WEBHOOK_HOSTS to allow it",
        ),
    ],
)
async def test_a_name_that_leads_nowhere_is_told(address: str, said: str):
    """Whether nobody knows it, or it is of a place where webhooks may not go."""
    answer = await tried("https://hooks.example.com/secret-path", Names(address))
    assert (said, "ClientConnectorDNSError") == (answer.fault, answer.outcome)


async def test_an_endpoint_that_is_silent_hangs_up_or_has_no_tls_is_told():
    """Each in its own words, with the port."""
    done = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    async def hanging_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def without_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await done.wait()
        writer.close()

    async with serving(silent) as port:
        answer = await tried(f"http://127.0.0.1:{port}/")
        assert (f"127.0.0.1:{port}: no answer within 0.5 s", "timeout") == (answer.fault, answer.outcome)
        done.set()
    async with serving(hanging_up) as port:
        answer = await tried(f"http://127.0.0.1:{port}/")
        assert f"127.0.0.1:{port}: the connection ended before an answer" == answer.fault
    async with serving(without_tls) as port:
        answer = await tried(f"https://127.0.0.1:{port}/")
        assert answer.fault.startswith(f"127.0.0.1:{port}: no connection over TLS ("), answer
    assert "forbidden" == (forbidden := await tried("http://example.com/")).outcome
    assert "example.com: expected https, or the host in SCOREGATE_WEBHOOK_HOSTS" == forbidden.fault


def test_other_faults_are_in_the_words_of_the_system():
    """Or have their name, if there are no words."""
    key = ConnectionKey("a.example", 443, True, True, None, None, None)  # type: ignore[arg-type]
    wrong = ssl.SSLCertVerificationError(1, "certificate verify failed")
    wrong.verify_message = "certificate has expired"
    url = "https://a.example/x"
    for error, said in (
        (
            ClientConnectorCertificateError(key, wrong),
            "a.example: its certificate is not valid (certificate has expired)",
        ),
        (ClientConnectorError(key, OSError(113, "")), "a.example: No route to host"),
        (ClientOSError(32, f"no body for {url}"), "a.example: the connection ended before an answer"),
        (RuntimeError("secret"), "a.example: RuntimeError"),
    ):
        assert said == in_words(error, url, 10)
    assert "ClientConnectorDNSError" == outcome_of(ClientConnectorDNSError(key, OSError()))
    assert "ValueError" == in_words(ValueError("secret"), "http://[", 10)
