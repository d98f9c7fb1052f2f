"""Telling readers when the index is behind the ledger: what they were told is durable may be missing from their answer."""

from __future__ import annotations

import math
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE
from gateway.edge.problems import Problem
from gateway.edge.reads.board_reader import IS_AWAY, SOURCE

BEHIND: Final = "Scoregate-Behind"
"""How long the oldest change that an answer may lack has been in the ledger, in whole seconds, rounded up."""

_IS_BEHIND: Final = web.RequestKey("is_behind", bool)

_ELSEWHERE: Final = frozenset({*SOURCE, "Scoregate-Revision"})
"""Fields of answers that are made by something else than the index alone."""


def telling(path: str, handler: Handler) -> Handler:
    """The handler of a GET route; of a board's, its answers say how far behind the index is, and are then not kept."""
    if not path.startswith("/v1/boards/{board}/"):
        return handler

    async def told(request: web.Request) -> web.StreamResponse:
        IS_AWAY.set(False)  # one task sees to all requests of a connection
        behind_s = request.app[EDGE].lag.behind_s(request.match_info["board"])
        if not behind_s:
            return await handler(request)
        said = {BEHIND: str(math.ceil(behind_s))}
        request[_IS_BEHIND] = True
        try:
            response = await handler(request)
        except Problem as problem:
            problem.headers |= said
            raise
        if not (response.prepared or "as_of" in request.query or _ELSEWHERE & set(response.headers)):
            response.headers.update(said | {"Cache-Control": "no-store"})
            response.headers.pop("ETag", None)
        return response

    return told


def is_behind(request: web.Request) -> bool:
    """True if the answer says that it may be behind: then it is whole, for no cache takes a field back with a 304."""
    return _IS_BEHIND in request
