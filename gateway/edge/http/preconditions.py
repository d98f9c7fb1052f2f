"""The precondition of a decision: the version of the case that it rests on (RFC 9110, §13.1.1)."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from gateway.edge.problems import Problem, ProblemType

VERSION_SEEN: Final = web.RequestKey("version_seen", str)
"""The ETag that a page's form carried, under this key of its request."""

_ETAG: Final = re.compile(r'"([0-9]{1,18})"')


def etag(version: int) -> str:
    """Return the entity tag of a case whose newest event has this sequence number."""
    return f'"{version}"'


def expected_version(request: web.Request) -> int:
    """Return the version that `If-Match` names.

    Raises `precondition-required` if it is missing or `*`, which names no version, and `precondition-failed`
    for any other text, since no case has such a tag.
    """
    seen: str = request.get(VERSION_SEEN) or request.headers.get("If-Match") or "*"
    field = seen.strip()
    if field == "*":
        raise Problem(
            ProblemType.PRECONDITION_REQUIRED,
            "If-Match: send the ETag of the case as you read it, so that you decide on what you saw",
        )
    if not (match := _ETAG.fullmatch(field)):
        raise Problem(ProblemType.PRECONDITION_FAILED, "If-Match: expected one ETag of the case")
    return int(match[1])
