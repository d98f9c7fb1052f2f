"""Lists the boards, and describes one."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import board_info, json_response
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import read_models

PAGE_LIMIT: Final = 100

_LISTED: Final = ("boards",)


async def list_boards(request: web.Request) -> web.Response:
    """Return a page of the boards, by name."""
    edge = request.app[EDGE]
    [after] = edge.cursors.place_in(request, _LISTED) or [""]
    limit = whole_number(request, "limit", PAGE_LIMIT, 1, PAGE_LIMIT)
    names = edge.catalogue.names_after(after, limit + 1)
    shown = [board_info(edge.catalogue.of_files[name], edge.builds) for name in names[:limit]]
    following = edge.cursors.next_of(_LISTED, names[limit - 1 : limit] if len(names) > limit else None)
    return revalidated(request, json_response(read_models.BoardList(boards=shown, next=following)))


async def show_board(request: web.Request) -> web.Response:
    """Return one board."""
    board = await board_of(request)
    return revalidated(request, json_response(board_info(board, request.app[EDGE].builds)))
