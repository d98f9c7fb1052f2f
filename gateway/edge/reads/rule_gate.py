"""Refuses reads of boards whose policy ranks by another rule than their standings, until these are folded.

Every GET of a board passes here, unless it is listed as one that shows no standing. Reads over several boards
ask for each of theirs.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.edge.problems import Problem, ProblemType

RETRY_S: Final = 2
"""When a reader should ask again."""

WITHOUT_STANDINGS: Final = frozenset(
    {
        "/v1/boards/{board}",
        "/v1/boards/{board}/assets/{digest}",
        "/v1/boards/{board}/details",
        "/v1/boards/{board}/join",
        "/v1/boards/{board}/players/{player}/memberships",
        "/v1/boards/{board}/statistics",
        "/v1/boards/{board}/trending",
        "/v1/boards/{board}/windows",
    }
)
"""Reads of a board that show no standing, so that the order of the board says nothing about them."""

_BOARD: Final = "/v1/boards/{board}"


async def refuse_outdated(boards: OutdatedBoards, board: str) -> None:
    """Raise `board-rebuilding` for an outdated board. Raises LedgerUnavailable."""
    if await boards.has(board):
        detail = f"{board}: its policy ranks by another rule now, and a steward folds its standings anew"
        raise Problem(ProblemType.BOARD_REBUILDING, detail, headers={"Retry-After": str(RETRY_S)})


def refusing_outdated(path: str, handler: Handler, boards: OutdatedBoards) -> Handler:
    """Wrap the GET handler of a board's route, unless the route shows no standing."""
    if not path.startswith(_BOARD) or path in WITHOUT_STANDINGS:
        return handler

    async def refusing_handler(request: web.Request) -> web.StreamResponse:
        await refuse_outdated(boards, request.match_info["board"])
        return await handler(request)

    return refusing_handler
