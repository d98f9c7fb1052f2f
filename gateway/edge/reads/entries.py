"""Shows the entries of a board."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import entry_page, entry_read, json_bytes, standing_read
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import archive_response, is_archived
from gateway.edge.reads.board_reader import SOURCE, BoardReader, SourcedPage
from gateway.edge.reads.carried_pages import span_of
from gateway.edge.reads.distribution_reader import ESTIMATED, DistributionReader
from gateway.edge.reads.filters import filter_of, filtered_around, filtered_page
from gateway.edge.reads.history import instant_of, past_page
from gateway.edge.reads.own_archive import archive_for
from gateway.edge.reads.own_reader import OwnReader
from gateway.edge.reads.own_view import reader_for
from gateway.edge.reads.page_cache import PAGES, CachedPage, Render, RenderedPage, revalidated
from gateway.index.board_index import Cut
from policies.choices import RankKind, WindowKind
from policies.loader import Board
from policies.windows import window_at, window_named

PAGE_LIMIT: Final = 100
RADIUS_LIMIT: Final = 25
DEPTH_LIMIT: Final = 10**9
CLOSED_MS: Final = 60_000
"""How long a closed board's page is kept, after which its archive may answer."""

WINDOW_NAME: Final = re.compile(r"alltime|[a-z]{1,10}:[0-9W]{4,14}")
"""The form of a window's name. Other names are not looked up in the ledger."""


async def list_entries(request: web.Request) -> web.Response:
    """Return a page of a window, by rank or from a cursor."""
    pages = request.app[PAGES]
    if (page := await pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    edge, board = request.app[EDGE], await board_of(request)
    cursor = edge.cursors.of(request, board)
    as_of_ms = instant_of(edge, request.query["as_of"]) if "as_of" in request.query else None
    if cursor and not await has_window(edge, board, cursor.window):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "cursor: its window is no longer kept")
    window = cursor.window if cursor else await window_of(edge, board, request, as_of_ms)
    first = whole_number(request, "offset", 0, 0, DEPTH_LIMIT)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    if (entry_filter := filter_of(request)) is not None:
        return revalidated(
            request, await filtered_page(request, board, window, entry_filter, offset=first, limit=count)
        )
    ranks = cursor.ranks if cursor else _rank_kind(board, request)
    if as_of_ms is not None:
        return await past_page(request, board, window, as_of_ms, ranks, offset=first, limit=count)
    start = cursor.cut if cursor else first
    if (archive := await archive_for(request, board, window)) is not None:
        final = await archive.page(start, count, ranks)
        return archive_response(request, final, final.revision)
    reader = await reader_for(request, board, window)
    render = partial(_page, edge, reader, board, window, ranks, start, count)
    return await pages.answer(request, remembered(request, board, window, render, reader))


async def show_entry(request: web.Request) -> web.Response:
    """Return one player's entry."""
    pages = request.app[PAGES]
    if (page := await pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    edge, board = request.app[EDGE], await board_of(request)
    window, player = await window_of(edge, board, request), request.match_info["player"]
    ranks = _rank_kind(board, request)
    if (archive := await archive_for(request, board, window)) is not None:
        entry, revision = await archive.entry(player, ranks)
        return archive_response(request, entry, revision, {"Scoregate-Window": window})
    reader = await reader_for(request, board, window)
    render = partial(_entry, edge, reader, board, window, ranks, player)
    return await pages.answer(request, remembered(request, board, window, render, reader))


async def list_around(request: web.Request) -> web.Response:
    """Return a player's entry with its neighbours."""
    pages = request.app[PAGES]
    if (page := await pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    if (entry_filter := filter_of(request)) is not None:
        window = await window_of(request.app[EDGE], board := await board_of(request), request)
        radius = whole_number(request, "radius", 5, 0, RADIUS_LIMIT)
        return revalidated(request, await filtered_around(request, board, window, entry_filter, radius))
    edge, board = request.app[EDGE], await board_of(request)
    window, player = await window_of(edge, board, request), request.match_info["player"]
    radius = whole_number(request, "radius", 5, 0, RADIUS_LIMIT)
    ranks = _rank_kind(board, request)
    if (archive := await archive_for(request, board, window)) is not None:
        final = await archive.around(player, radius, ranks)
        return archive_response(request, final, final.revision)
    reader = await reader_for(request, board, window)
    render = partial(_neighbours, edge, reader, board, window, ranks, player, radius)
    return await pages.answer(request, remembered(request, board, window, render, reader))


def remembered(
    request: web.Request, board: Board, window: str, render: Render, reader: BoardReader | None = None
) -> CachedPage:
    """Cache the page of the request's target until its window ends; then the archive may have it.

    What only its reader may see is not cached.
    """
    if isinstance(reader, OwnReader):
        return CachedPage(request.raw_path, board, window, render, own=reader.own)
    until_ms = window_named(board.policy, window).end_ms
    if board.final_from_ms is not None:
        until_ms = min(until_ms, request.app[EDGE].clock() + CLOSED_MS)
    return request.app[PAGES].remember(request, board, window, render, until_ms=until_ms)


async def _page(
    edge: Edge,
    reader: BoardReader,
    board: Board,
    window: str,
    ranks: RankKind,
    start: Cut | int,
    count: int,
) -> RenderedPage:
    sourced = await reader.page(window, start, count, ranks)
    if isinstance(start, Cut):
        return _rendered(edge, board, window, ranks, sourced, start)
    rendered = _rendered(edge, board, window, ranks, sourced)
    return replace(rendered, span=span_of(sourced.page, board.ranking, window, ranks, slides=False))


async def _entry(
    edge: Edge, reader: BoardReader, board: Board, window: str, ranks: RankKind, player: str
) -> RenderedPage:
    distributions = replace(edge.of(board).distributions, reader=reader)
    if (standing := await _below_head(distributions, board, window, ranks, player)) is not None:
        return standing
    sourced = await _around(reader, window, ranks, player, 0)
    headers = {"Scoregate-Window": window} | sourced.headers
    [entry] = sourced.page.entries
    position, is_from_index = await distributions.position_of(window, entry, ranks)
    body = json_bytes(entry_read(entry, position))
    return RenderedPage(body, headers, is_from_index=sourced.is_from_index and is_from_index)


async def _below_head(
    distributions: DistributionReader, board: Board, window: str, ranks: RankKind, player: str
) -> RenderedPage | None:
    """Render the standing of a player below the exact ranks, from the ledger, with an estimated position."""
    if not board.policy.exact_ranks:
        return None
    in_head = await distributions.reader.around(window, player, 0, ranks)
    if in_head.page.entries or not in_head.is_from_index:
        return None
    below = await distributions.below_head(window, player)
    if below is None:
        return None
    standing, position = below
    headers = {"Scoregate-Window": window} | (ESTIMATED if position.error else SOURCE)
    return RenderedPage(json_bytes(standing_read(standing, position)), headers, is_from_index=False)


async def _neighbours(
    edge: Edge,
    reader: BoardReader,
    board: Board,
    window: str,
    ranks: RankKind,
    player: str,
    radius: int,
) -> RenderedPage:
    sourced = await _around(reader, window, ranks, player, radius)
    rendered = _rendered(edge, board, window, ranks, sourced)
    return replace(rendered, span=span_of(sourced.page, board.ranking, window, ranks, slides=True))


async def _around(reader: BoardReader, window: str, ranks: RankKind, player: str, radius: int) -> SourcedPage:
    sourced = await reader.around(window, player, radius, ranks)
    if not sourced.page.entries:
        raise Problem(
            ProblemType.NOT_FOUND,
            "the player has no entry on this board",
            headers=sourced.headers,
            ranked=False,
            total=sourced.page.total,
        )
    return sourced


def _rendered(
    edge: Edge, board: Board, window: str, ranks: RankKind, sourced: SourcedPage, cut: Cut | None = None
) -> RenderedPage:
    following, preceding = edge.cursors.beside(board, window, ranks, sourced.page, cut)
    body = json_bytes(entry_page(board.name, window, sourced.page, following, preceding))
    version = sourced.page.version
    return RenderedPage(body, sourced.headers, is_from_index=sourced.is_from_index, version=version)


def _rank_kind(board: Board, request: web.Request) -> RankKind:
    """Return the kind of rank that the query asks for, or else the board's own."""
    kinds = {kind.value: kind for kind in board.policy.ranks}
    name = request.query.get("ranks")
    if name is None:
        return board.policy.ranks[0]
    if name not in kinds:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"ranks: the board keeps {', '.join(kinds)}")
    return kinds[name]


async def window_of(edge: Edge, board: Board, request: web.Request, as_of_ms: int | None = None) -> str:
    """Return the name of the queried window. A kind means its window at `as_of_ms`, or the current one."""
    name = request.query.get("window", WindowKind.ALLTIME.value)
    kinds = {kind.value: kind for kind in board.policy.windows}
    if name in kinds:
        return window_at(board.policy, kinds[name], edge.clock() if as_of_ms is None else as_of_ms).name
    if await has_window(edge, board, name):
        return name
    kind = kinds.get(name.partition(":")[0])
    if kind is not None:
        current = window_at(board.policy, kind, edge.clock()).name
        raise Problem(ProblemType.NOT_FOUND, f"window: no such window; the current one is {current}")
    raise Problem(ProblemType.NOT_FOUND, f"the board keeps the windows {', '.join(kinds)}")


async def has_window(edge: Edge, board: Board, window: str) -> bool:
    """Return whether the board or its archive keeps a window of this name."""
    if not WINDOW_NAME.fullmatch(window):
        return False
    if window.partition(":")[0] in {kind.value for kind in board.policy.windows}:
        with suppress(ValueError):
            return bool(window_named(board.policy, window))
    return await is_archived(edge, board, window)
