"""What a submission carries for readers besides its score: some integers and a small object, which nothing here judges."""

from __future__ import annotations

import re
from typing import Final

import orjson
from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import board_of
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import bodies, read_models
from gateway.ledger.reads import ReadKind
from gateway.ledger.submissions.details import brought_by
from policies.loader import Board

LISTED: Final = 100
"""Most submissions asked for at once: as many as a page shows."""

_LIST: Final = re.compile(r"[a-z0-9]{1,64}(,[a-z0-9]{1,64})*")


async def list_details(request: web.Request) -> web.Response:
    """What the submissions behind some entries brought along."""
    edge, board = request.app[EDGE], board_of(request)
    text = request.query.get("submissions", "")
    asked = text.split(",")
    if not _LIST.fullmatch(text) or len(asked) > LISTED:
        raise _refusal(f"submissions: expected 1 to {LISTED} submission ids, with commas between them")
    found = await edge.ledger.read(brought_by(board.name, asked), ReadKind.HEAVY)
    shown = [
        read_models.DetailsShown(
            submission=each.submission_id,
            player=each.player,
            stats=dict(each.stats),
            integers=list(each.integers),
            object=dict(each.content),
        )
        for each in found
    ]
    return revalidated(request, json_response(read_models.DetailsList(board=board.name, details=shown)))


def stored_details(board: Board, details: bodies.Details | None) -> str | None:
    """The details as the ledger keeps them. Raises `schema-violation` for more than the board takes."""
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
