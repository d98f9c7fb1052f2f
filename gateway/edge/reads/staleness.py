"""Tells readers when the index is behind the ledger, so that an answer may lack durable changes."""

from __future__ import annotations

import math
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE
from gateway.edge.problems import Problem
from gateway.edge.reads.board_reader import SOURCE

BEHIND: Final = "Scoregate-Behind"
"""The header field with the age, in seconds rounded up, of the oldest change that an answer may lack."""

TIMELESS: Final = frozenset({"/v1/boards/{board}/assets/{digest}"})
"""Routes of boards whose answers never change, however far behind the index is."""

_IS_BEHIND: Final = web.RequestKey("is_behind", bool)

_NOT_FROM_INDEX: Final = frozenset({*SOURCE, "Scoregate-Revision"})
"""Header fields of answers that do not come from the index alone."""


def with_staleness(path: str, handler: Handler) -> Handler:
    """Wrap a board's GET handler: its answers say how far behind the index is, and then are not cached."""
    if not path.startswith("/v1/boards/{board}/") or path in TIMELESS:
        return handler

    async def answer(request: web.Request) -> web.StreamResponse:
        behind_s = request.app[EDGE].lag.behind_s(request.match_info["board"])
        if not behind_s:
            return await handler(request)
        field = {BEHIND: str(math.ceil(behind_s))}
        request[_IS_BEHIND] = True
        try:
            response = await handler(request)
        except Problem as problem:
            problem.headers |= field
            raise
        if not (response.prepared or "as_of" in request.query or _NOT_FROM_INDEX & set(response.headers)):
            response.headers.update(field | {"Cache-Control": "no-store"})
            response.headers.pop("ETag", None)
        return response

    return answer


def is_behind(request: web.Request) -> bool:
    """Return whether the answer will say that it may be behind.

    Such an answer is sent whole: no cache takes a header field back with a 304.
    """
    return _IS_BEHIND in request
