"""Refusals of whole writes before they are parsed, by their first line and length.

An edge at twice its capacity spends a third of its time on refusals if each of them is parsed and routed. A
refusal of this module costs a fiftieth of that. Data that is not exactly one plain request is parsed all the
same.
"""

from __future__ import annotations

import random
import re
from typing import Final

import orjson

from gateway.edge.admission.shedding import OVERLOADED, RETRY_S
from gateway.edge.problems import COMMON_HEADERS, PROBLEM_BASE, ProblemType
from gateway.runtime.telemetry import PROBLEMS

_WRITE: Final = re.compile(rb"(?:POST|PUT|DELETE) /v1/[^ \r\n]* HTTP/1\.1\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_FRAMING: Final = re.compile(
    rb"\r\n(?:transfer-encoding:|expect:|upgrade:|proxy-connection:|"
    rb"connection:(?![ \t]*keep-alive[ \t]*\r\n))",
    re.IGNORECASE,
)
"""Fields by which a message may end elsewhere, or its connection may end or change its protocol.

aiohttp's parser heeds `Proxy-Connection` as it does `Connection`.
"""

_KIND: Final = ProblemType.REDUCED_CAPACITY
_BODY: Final = orjson.dumps(
    {"type": PROBLEM_BASE + _KIND.slug, "title": _KIND.title, "status": _KIND.status, "detail": OVERLOADED}
)
_FIELDS: Final = {
    **COMMON_HEADERS,
    "Cache-Control": "no-store",
    "Content-Type": "application/problem+json",
    "Content-Length": str(len(_BODY)),
}
_STATUS: Final = b"HTTP/1.1 503 Service Unavailable\r\n"
_REFUSALS: Final = tuple(
    b"%bRetry-After: %d\r\n\r\n%b"
    % ("".join(f"{name}: {value}\r\n" for name, value in _FIELDS.items()).encode(), seconds, _BODY)
    for seconds in range(RETRY_S[0], RETRY_S[1] + 1)
)
_refusals = PROBLEMS.labels(_KIND.slug)


def is_whole_request(data: bytes) -> bool:
    """Return whether the bytes are exactly one request."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[: end + 2]
    if _FRAMING.search(head):
        return False
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or (not lengths and b"content-length" in head.lower()):
        return False
    return len(data) == end + 4 + (int(lengths[0]) if lengths else 0)


def is_write(data: bytes) -> bool:
    """Return whether the bytes begin a write."""
    return _WRITE.match(data) is not None


def refusal(fields: bytes = b"") -> bytes:
    """Count and return a `temporary-reduced-capacity` answer with these lines and a random `Retry-After`."""
    _refusals.inc()
    return _STATUS + fields + random.choice(_REFUSALS)  # noqa: S311 - no secret depends on it
