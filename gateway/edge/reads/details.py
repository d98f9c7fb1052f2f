"""Shows the details of submissions: some integers and a small object for readers, which nothing judges."""

from __future__ import annotations

import re
from typing import Final

import orjson
from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import board_of
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.own_view import shadow_banned
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import bodies, read_models
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions.details import details_of
from policies.loader import Board

DETAILS_LIMIT: Final = 100
"""Most submissions in one request: as many as a page shows."""

_LIST: Final = re.compile(r"[a-z0-9]{1,64}(,[a-z0-9]{1,64})*")


async def list_details(request: web.Request) -> web.Response:
    """Return the details of the submissions behind some entries."""
    edge, board = request.app[EDGE], await board_of(request)
    text = request.query.get("submissions", "")
    ids = text.split(",")
    if not _LIST.fullmatch(text) or len(ids) > DETAILS_LIMIT:
        raise _refusal(f"submissions: expected 1 to {DETAILS_LIMIT} submission ids, separated by commas")
    work = details_of(board.name, ids, own=shadow_banned(request, board.name))
    rows = await edge.ledger.read(work, ReadKind.HEAVY)
    shown = [
        read_models.DetailsShown(
            submission=row.submission_id,
            player=row.player,
            stats=dict(row.stats),
            integers=list(row.integers),
            object=dict(row.content),
        )
        for row in rows
    ]
    return revalidated(request, json_response(read_models.DetailsList(board=board.name, details=shown)))


def stored_details(board: Board, details: bodies.Details | None) -> str | None:
    """Return the details as the ledger stores them.

    Raises `schema-violation` for more than the board takes.
    """
    if details is None:
        return None
    allowed = board.policy.details
    if len(details.integers) > allowed.integers:
        raise _refusal(f"details.integers: the board takes {allowed.integers}")
    if details.object and len(orjson.dumps(details.object)) > allowed.object_bytes:
        raise _refusal(f"details.object: the board takes {allowed.object_bytes} bytes")
    return orjson.dumps(details.model_dump()).decode()


def _refusal(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
