"""No answer tells what it was made by."""

from __future__ import annotations

import base64
import secrets

import pytest

from tests.support.harness import Harness
from tests.support.raw import RawConnection

HOST = b"Host: %b\r\n"
KEY = base64.b64encode(secrets.token_bytes(16))
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n"
    % KEY
)

REQUESTS = {
    "200": (b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "page": (b"GET /docs HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "json": (b"GET /v1/boards HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "404": (b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    "405": (b"POST /livez HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\n", 405),
    "421": (b"GET /livez HTTP/1.1\r\nHost: elsewhere\r\n\r\n", 421),
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", None),
    "no HTTP": (b"what is this\r\n\r\n", 400),
    "two lengths": (
        b"POST /v1/players HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
    ),
    "long line": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", None),
    "SSE": (b"GET /v1/boards/vault/live HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    "101": (b"GET /v1/boards/vault/live/websocket HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n", 101),
    "no handshake": (b"GET /v1/boards/vault/live/websocket HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "expectation": (
        b"POST /v1/players HTTP/1.1\r\n" + HOST + b"Expect: magic\r\nContent-Length: 2\r\n\r\n{}",
        None,
    ),
}


async def test_F15_no_answer_has_a_server_field(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Of every kind of answer, a WebSocket's, a stream's and the library's own refusals too; nor Python's name in any."""
    telling, statuses = [], {}
    for name, (request, status) in REQUESTS.items():
        async with RawConnection(harness.authority) as connection:
            await connection.send(request.replace(b"%b", harness.authority.encode()))
            head = await connection._reader.readuntil(b"\r\n\r\n")
        if b"server:" in head.lower() or b"aiohttp" in head.lower() or b"python" in head.lower():
            telling.append(name)
        if status is not None:
            statuses[name] = (status, int(head.split()[1]))
    assert [] == telling
    assert [] == [name for name, (expected, found) in statuses.items() if expected != found]
