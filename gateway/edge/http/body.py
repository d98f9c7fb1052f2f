"""Reading of bodies: media types, sizes, deadlines, and no body before its signature.

A route that needs a signature reads its body with `read_signed` alone: a stranger's head is refused before a
byte of the body is kept.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Final, TypeVar

from aiohttp import HttpVersion11, web

from gateway.edge.admission.shedding import begin_visit
from gateway.edge.auth.signed_request import SignedHead
from gateway.edge.context import EDGE
from gateway.edge.http.expectation import invite_body
from gateway.edge.http.request import client_names
from gateway.edge.problems import Problem, ProblemType

Whole = TypeVar("Whole")
Body = TypeVar("Body", bytes, bytearray)

_JSON: Final = re.compile(r'application/json(\s*;\s*charset="?utf-8"?)?', re.IGNORECASE)
_OCTETS: Final = re.compile(r"application/octet-stream", re.IGNORECASE)
NDJSON: Final = re.compile(r'application/x-ndjson(\s*;\s*charset="?utf-8"?)?', re.IGNORECASE)

SLOWEST_BYTES_S: Final = 128 * 1024
"""Bytes a second at which a file of any size arrives in time."""

SMALL_BODY: Final = 2_048
TEXT_BODY: Final = 32_768
"""The maximum size of a body without a recording or a list (bytes)."""

STAND_IN: Final = web.RequestKey("stand_in", bytes)
"""The JSON that a page made of a form, under this key of its request."""

_FORM: Final = re.compile(r'application/x-www-form-urlencoded(\s*;\s*charset="?utf-8"?)?', re.IGNORECASE)


def is_json(media: str) -> bool:
    """Return whether a Content-Type is that of JSON."""
    return _JSON.fullmatch(media) is not None


async def read_body(request: web.Request, limit: int) -> bytes:
    """Return the raw body of up to `limit` bytes: JSON that nobody has to sign, or what stands in for it."""
    made: bytes | None = request.get(STAND_IN)
    if made is not None:
        return made  # of a form whose size was bounded
    _check_head(request, limit, (_JSON,), "application/json")
    return await _receive(request, limit)


async def read_form_body(request: web.Request, limit: int) -> bytes:
    """Return the raw body of up to `limit` bytes: the fields of a page's form."""
    _check_head(request, limit, (_FORM,), "application/x-www-form-urlencoded")
    return await _receive(request, limit)


async def read_octets(request: web.Request, limit: int, *, is_counted: bool = True) -> bytes:
    """Return the raw body of up to `limit` bytes: `application/octet-stream`.

    What has arrived adds to the time for the rest, so that a slow line does not keep out a large file. A body
    that is not counted among those that arrive needs another bound on how many there are.
    """
    _check_head(request, limit, (_OCTETS,), "application/octet-stream")
    return await _receive(request, limit, bytes_s=SLOWEST_BYTES_S, is_counted=is_counted)


async def read_signed(
    request: web.Request,
    limit: int,
    authenticate: Callable[[web.Request], Awaitable[SignedHead[Whole]]],
    *others: re.Pattern[str],
) -> tuple[Whole, bytes]:
    """Return a signed request and its raw body of up to `limit` bytes: JSON, or a media type in `others`.

    `authenticate` refuses the head by its signature; a body that has not come by then is read after that.
    Raises what it raises, the refusals of a body, and `signature-invalid` for another body than the signed
    one.
    """
    _check_head(request, limit, (_JSON, *others), "application/json")
    arrived = _arrived(request, limit)  # taken now, or it would be lost if the client left meanwhile
    head = await authenticate(request)
    body = await _receive(request, limit) if arrived is None else arrived
    return head.with_body(body), body


def announced_octets(request: web.Request, limit: int) -> int:
    """Return the announced size of an octet body before it is read; `limit` without a Content-Length.

    Raises what `read_octets` raises for the head of the request.
    """
    _check_head(request, limit, (_OCTETS,), "application/octet-stream")
    return limit if request.content_length is None else request.content_length


def _check_head(request: web.Request, limit: int, patterns: Sequence[re.Pattern[str]], expected: str) -> None:
    """Refuse a body by what the head of its request says."""
    if "Content-Encoding" in request.headers:
        raise Problem(ProblemType.CONTENT_ENCODING_NOT_ALLOWED, "Content-Encoding: expected none")
    framing = request.headers.getall("Transfer-Encoding", [])
    if framing and (request.version != HttpVersion11 or [each.lower() for each in framing] != ["chunked"]):
        detail = "Transfer-Encoding: expected `chunked` alone, over HTTP/1.1"  # RFC 9112, §6.1
        raise Problem(ProblemType.MALFORMED_REQUEST, detail)
    media = request.headers.get("Content-Type", "")
    if not any(pattern.fullmatch(media) for pattern in patterns):
        raise Problem(ProblemType.UNSUPPORTED_MEDIA_TYPE, f"expected {expected}")
    if (request.content_length or 0) > limit:
        raise _too_large(limit)


async def _receive(
    request: web.Request, limit: int, *, bytes_s: float = math.inf, is_counted: bool = True
) -> bytes:
    arrived = _arrived(request, limit)
    if arrived is not None:
        return arrived
    edge = request.app[EDGE]
    try:
        with (
            edge.arriving.receiving(client_names(edge, request))
            if is_counted
            else nullcontext(_pass) as count
        ):
            async with asyncio.timeout(edge.settings.body_timeout_s) as patience:
                await invite_body(request)
                body = await _read_within(request, limit, patience, bytes_s, count)
    except TimeoutError:
        detail = f"expected the body within {edge.settings.body_timeout_s:g} s"
        if bytes_s < math.inf:
            detail += f" and a second for every {bytes_s:g} bytes"
        raise Problem(ProblemType.REQUEST_TIMEOUT, detail) from None
    except (ConnectionError, web.RequestPayloadError) as error:
        # The stream keeps its error, and the error its frames with the body, until the collector finds them.
        # And an error of a client that left would have aiohttp's task and frame keep each other.
        error.__traceback__ = None
        raise Problem(ProblemType.MALFORMED_REQUEST, "the body ends before its length") from None
    begin_visit(request)
    return body


def _pass(_size_bytes: int) -> None:
    """Count nothing."""


def _arrived(request: web.Request, limit: int) -> bytes | None:
    """Return a body that is here as a whole; most come with their head, and cost no timer."""
    if not request.content.is_eof():
        return None
    body = _within(request.content.read_nowait(), limit)
    begin_visit(request)
    return body


async def _read_within(
    request: web.Request,
    limit: int,
    patience: asyncio.Timeout,
    bytes_s: float,
    count: Callable[[int], None],
) -> bytes:
    body, until_s = bytearray(), patience.when()
    async for chunk in request.content.iter_any():
        body += chunk
        _within(body, limit)
        count(len(body))
        if until_s is not None and bytes_s < math.inf:
            patience.reschedule(until_s + len(body) / bytes_s)
    return bytes(body)


def _within(body: Body, limit: int) -> Body:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> Problem:
    return Problem(ProblemType.PAYLOAD_TOO_LARGE, f"the body may have at most {limit} bytes")
