"""Reading: boards, entries, and the state of a submission."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from gateway.boards.index import Page
from gateway.edge import wire
from gateway.edge.answers import board_info, entry_page, entry_shown, json_response, submission_status
from gateway.edge.context import EDGE, Edge
from gateway.edge.history import instant_of, past_page
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reading import bearer_of, board_of, whole_number
from gateway.ledger import queries
from gateway.ledger.records import StoredSubmission
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.model import WindowKind
from policies.vocabulary import State
from policies.windows import window_at

PAGE_LIMIT: Final = 100
RADIUS_LIMIT: Final = 25
DEPTH_LIMIT: Final = 10**9

_WINDOW: Final = re.compile(r"(daily):[0-9]{8}|(weekly):[0-9]{4}W[0-9]{2}|(monthly):[0-9]{6}")


async def list_boards(request: web.Request) -> web.Response:
    """Every board."""
    boards = request.app[EDGE].boards
    return json_response(wire.BoardList(boards=[board_info(boards[name]) for name in sorted(boards)]))


async def show_board(request: web.Request) -> web.Response:
    """One board."""
    return json_response(board_info(board_of(request)))


async def list_entries(request: web.Request) -> web.Response:
    """A page of a window by rank."""
    edge, board = request.app[EDGE], board_of(request)
    as_of_ms = instant_of(edge, request.query["as_of"]) if "as_of" in request.query else None
    window = _window(edge, board, request, as_of_ms)
    first = whole_number(request, "offset", 0, 0, DEPTH_LIMIT)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    if as_of_ms is not None:
        return await past_page(request, board, window, as_of_ms, offset=first, limit=count)
    page = await edge.index.boards[board.name].page(window, first, count)
    return json_response(entry_page(board.name, window, page))


async def show_entry(request: web.Request) -> web.Response:
    """One player's entry."""
    window, page = await _around(request, radius=0)
    return json_response(entry_shown(page.entries[0]), headers={"Scoregate-Window": window})


async def list_around(request: web.Request) -> web.Response:
    """A player's entry with its neighbours."""
    window, page = await _around(request, radius=whole_number(request, "radius", 5, 0, RADIUS_LIMIT))
    return json_response(entry_page(request.match_info["board"], window, page))


async def show_submission(request: web.Request) -> web.Response:
    """Where a submission stands; its player and the board's moderators may ask."""
    edge, bearer = request.app[EDGE], bearer_of(request)
    found = await edge.ledger.read(queries.submission(request.match_info["submission"]))
    if found is None or not (bearer.subject == found.player or bearer.may_moderate(found.board)):
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    return json_response(submission_status(found, await _rank(edge, found)))


async def _around(request: web.Request, radius: int) -> tuple[str, Page]:
    edge, board = request.app[EDGE], board_of(request)
    window = _window(edge, board, request)
    page = await edge.index.boards[board.name].around(window, request.match_info["player"], radius)
    if page is None:
        raise Problem(ProblemType.NOT_FOUND, "the player has no entry on this board", ranked=False)
    return window, page


async def _rank(edge: Edge, found: StoredSubmission) -> int | None:
    """The all-time rank of a promoted submission's player; None when it has none or Redis cannot tell."""
    if found.state is not State.PROMOTED or found.board not in edge.index.boards:
        return None
    try:
        page = await edge.index.boards[found.board].around("alltime", found.player, 0)
    except IndexUnavailable:
        return None
    return page.entries[0].rank if page else None


def _window(edge: Edge, board: Board, request: web.Request, as_of_ms: int | None = None) -> str:
    """The name of the window that the query asks for: a kind means the one of that instant, or the current one."""
    asked = request.query.get("window", WindowKind.ALLTIME.value)
    kinds = {kind.value: kind for kind in board.policy.windows}
    if asked in kinds:
        return window_at(kinds[asked], edge.clock() if as_of_ms is None else as_of_ms).name
    named = _WINDOW.fullmatch(asked)
    if named and named[named.lastindex or 0] in kinds:
        return asked
    raise Problem(ProblemType.NOT_FOUND, f"the board keeps the windows {', '.join(kinds)}")
