"""What the HTTP library would refuse by itself is refused as everything else is: as a problem with a stable type."""

from __future__ import annotations

import pytest
from aiohttp import web

from gateway.edge import app
from gateway.edge.problems import PROBLEM_BASE, ProblemType
from tests.support.harness import Harness
from tests.support.raw import RawConnection, exchange

ODD = {
    **{
        f"expects {what}": f"GET {what} HTTP/1.1\r\nExpect: magic"
        for what in ("/livez", "/nothing", "/docs", "/")
    },
    "expects, of no method": "PATCH /livez HTTP/1.1\r\nExpect: 200-ok",
    "expects two things": "POST /v1/players HTTP/1.1\r\nExpect: 100-continue, magic\r\nContent-Length: 2",
    "expects elsewhere": "GET http://elsewhere/ HTTP/1.1\r\nExpect: magic",
    "range": "GET /docs HTTP/1.1\r\nRange: bytes=999999999-",
    "range of the game": "GET /arcade/arcade.js HTTP/1.1\r\nRange: bytes=999999999-",
    "condition": 'GET /arcade/arcade.js HTTP/1.1\r\nIf-Match: "other"',
    "since": "GET /arcade/arcade.js HTTP/1.1\r\nIf-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "all options": "OPTIONS * HTTP/1.1",
    "options": "OPTIONS /v1/boards HTTP/1.1",
    "tunnel": "CONNECT elsewhere:80 HTTP/1.1",
    "trace": "TRACE / HTTP/1.1",
    "unknown method": "BREW /v1/boards HTTP/1.1",
    "no such page": "GET /arcade/none.js HTTP/1.1",
    "folder above": "GET /arcade/../../etc/passwd HTTP/1.1",
    "null": "GET /arcade/%00 HTTP/1.1",
    "no WebSocket": "GET /v1/boards/vault/live/websocket HTTP/1.1",
    "an old WebSocket": "GET /v1/boards/vault/live/websocket HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 7\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "a WebSocket without a key": "GET /v1/boards/vault/live/websocket HTTP/1.1\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13",
    "no HTTP": "what is this",
    "the preface of HTTP/2": "PRI * HTTP/2.0",
    "no such version": "GET / HTTP/9.9",
    "bad chunks": "POST /v1/players HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz",
    "unknown coding": "POST /v1/players HTTP/1.1\r\nTransfer-Encoding: gzip",
    "wrong length": "POST /v1/players HTTP/1.1\r\nContent-Length: -1",
}
"""Requests without their `Host`."""

SLUGS = {PROBLEM_BASE + kind.slug: kind.status for kind in ProblemType}


async def test_every_refusal_of_the_library_is_a_problem(harness: Harness) -> None:
    """Whatever is odd about a request, a refusal has a type that is documented, and is no text of the library's."""
    otherwise, expectations = {}, {}
    for name, head in ODD.items():
        line, _, fields = head.partition("\r\n")
        lines = [line, f"Host: {harness.authority}", *([fields] if fields else [])]
        body = b"{}" if "Content-Length: 2" in fields else b""
        answer = await exchange(harness.authority, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        is_problem = answer.headers.get("Content-Type") == "application/problem+json"
        if answer.status >= 400 and not (is_problem and SLUGS.get(answer.body["type"]) == answer.status):
            otherwise[name] = (answer.status, answer.headers.get("Content-Type"), answer.raw[:80])
        if name.startswith("expects"):
            expectations[name] = (answer.status, answer.headers.get("Content-Type"), answer.raw[:80])
    assert {} == otherwise
    assert {(417, "application/problem+json")} == {told[:2] for told in expectations.values()}, expectations


@pytest.mark.parametrize(
    "error",
    [
        web.HTTPBadRequest(reason="Bad bearer.abc", text="bearer.abc"),
        web.HTTPForbidden(text="bearer.abc"),
        web.HTTPNotFound(text="bearer.abc"),
        web.HTTPMethodNotAllowed("BREW", [], text="bearer.abc"),
        web.HTTPRequestEntityTooLarge(1, 2, text="bearer.abc"),
        web.HTTPUnsupportedMediaType(text="bearer.abc"),
    ],
    ids=lambda error: str(error.status),
)
def test_a_refusal_of_the_library_says_what_to_do_in_our_words(error: web.HTTPException) -> None:
    """Neither the phrase of its status, which says nothing, nor a text that may quote the request."""
    detail = app.problem_of(error).detail or ""
    assert detail.endswith("; see /docs")
    assert "abc" not in detail
    assert error.reason not in detail


async def test_an_expectation_that_is_met_is_met(harness: Harness) -> None:
    """Who waits to be told to go on is told so, and then answered; the refusal of another closes the connection."""
    body = b'{"name": "Ada"}'
    head = f"POST /v1/players HTTP/1.1\r\nHost: {harness.authority}\r\nContent-Type: application/json\r\n"
    async with RawConnection(harness.authority) as connection:
        await connection.send(f"{head}Expect: 100-Continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert b"HTTP/1.1 100 Continue\r\n" == await connection.line()
        await connection.line()
        await connection.send(body)
        assert 201 == (await connection.answer()).status
    async with RawConnection(harness.authority) as connection:
        await connection.send(f"{head}Expect: cake\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        refused = await connection.answer()
        assert (417, "close") == (refused.status, refused.headers.get("Connection"))
        assert await connection.is_closed()
