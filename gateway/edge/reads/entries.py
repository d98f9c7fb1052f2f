"""Reading: boards, entries, and the state of a submission."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Final

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import bearer_of, board_of, whole_number
from gateway.edge.http.responses import (
    IN_GOOD_STANDING,
    board_info,
    entry_page,
    entry_read,
    json_bytes,
    json_response,
    standing_read,
    submission_status,
)
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import archive_response, archived, is_archived
from gateway.edge.reads.board_reader import SOURCE, SourcedPage
from gateway.edge.reads.distribution_reader import ESTIMATED
from gateway.edge.reads.filters import filter_of, filtered_around, filtered_page
from gateway.edge.reads.history import instant_of, past_page
from gateway.edge.reads.page_cache import PAGES, CachedPage, Render, RenderedPage, revalidated
from gateway.edge.wire import read_models
from gateway.index.board_index import Cut
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from policies.loader import Board
from policies.model import RankKind, WindowKind
from policies.vocabulary import Reason, State
from policies.windows import window_at, window_named

PAGE_LIMIT: Final = 100
RADIUS_LIMIT: Final = 25
DEPTH_LIMIT: Final = 10**9
BOARD_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")

WINDOW_NAME: Final = re.compile(r"alltime|[a-z]{1,10}:[0-9W]{4,14}")
"""What names of windows look like: none else is looked for in the ledger."""


async def list_boards(request: web.Request) -> web.Response:
    """A page of the boards, by name; a cursor is the name of the last that was seen."""
    edge, after = request.app[EDGE], request.query.get("cursor", "")
    limit = whole_number(request, "limit", PAGE_LIMIT, 1, PAGE_LIMIT)
    if after and not BOARD_NAME.fullmatch(after):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "cursor: expected the `next` of a page of boards")
    names = edge.boards.names_after(after, limit + 1)
    shown = [board_info(edge.boards[name], edge.builds) for name in names[:limit]]
    following = names[limit - 1] if len(names) > limit else None
    return revalidated(request, json_response(read_models.BoardList(boards=shown, next=following)))


async def show_board(request: web.Request) -> web.Response:
    """One board."""
    return revalidated(request, json_response(board_info(board_of(request), request.app[EDGE].builds)))


async def list_entries(request: web.Request) -> web.Response:
    """A page of a window, by rank or from a cursor."""
    pages = request.app[PAGES]
    if (page := pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    edge, board = request.app[EDGE], board_of(request)
    cursor = edge.cursors.of(request, board)
    as_of_ms = instant_of(edge, request.query["as_of"]) if "as_of" in request.query else None
    if cursor and not await is_kept(edge, board, cursor.window):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "cursor: its window is not kept any more")
    window = cursor.window if cursor else await window_of(edge, board, request, as_of_ms)
    first = whole_number(request, "offset", 0, 0, DEPTH_LIMIT)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    if (some := filter_of(request)) is not None:
        return revalidated(
            request, await filtered_page(request, board, window, some, offset=first, limit=count)
        )
    ranks = cursor.ranks if cursor else _rank_kind(board, request)
    if as_of_ms is not None:
        return await past_page(request, board, window, as_of_ms, ranks, offset=first, limit=count)
    start = cursor.cut if cursor else first
    if (past := await archived(edge, board, window)) is not None:
        final = await past.page(start, count, ranks)
        return archive_response(request, final, final.revision)
    render = partial(_page, edge, board, window, ranks, start, count)
    return await pages.answer(request, remembered(request, board, window, render))


async def show_entry(request: web.Request) -> web.Response:
    """One player's entry."""
    pages = request.app[PAGES]
    if (page := pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    edge, board = request.app[EDGE], board_of(request)
    window, player = await window_of(edge, board, request), request.match_info["player"]
    ranks = _rank_kind(board, request)
    if (past := await archived(edge, board, window)) is not None:
        entry, revision = await past.entry(player, ranks)
        return archive_response(request, entry, revision, {"Scoregate-Window": window})
    render = partial(_entry, edge, board, window, ranks, player)
    return await pages.answer(request, remembered(request, board, window, render))


async def list_around(request: web.Request) -> web.Response:
    """A player's entry with its neighbours."""
    pages = request.app[PAGES]
    if (page := pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    if (some := filter_of(request)) is not None:
        window = await window_of(request.app[EDGE], board := board_of(request), request)
        radius = whole_number(request, "radius", 5, 0, RADIUS_LIMIT)
        return revalidated(request, await filtered_around(request, board, window, some, radius))
    edge, board = request.app[EDGE], board_of(request)
    window, player = await window_of(edge, board, request), request.match_info["player"]
    radius = whole_number(request, "radius", 5, 0, RADIUS_LIMIT)
    ranks = _rank_kind(board, request)
    if (past := await archived(edge, board, window)) is not None:
        final = await past.around(player, radius, ranks)
        return archive_response(request, final, final.revision)
    render = partial(_neighbours, edge, board, window, ranks, player, radius)
    return await pages.answer(request, remembered(request, board, window, render))


async def show_submission(request: web.Request) -> web.Response:
    """Where a submission stands; its player and the board's moderators may ask."""
    edge, bearer = request.app[EDGE], bearer_of(request)
    found = await edge.ledger.read(queries.submission(request.match_info["submission"]), ReadKind.PLAYERS)
    if found is None or not (bearer.subject == found.player or bearer.may_moderate(found.board)):
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    rank, divergent_tick = await _rank(edge, found), await _divergent_tick(edge, found)
    return json_response(submission_status(found, rank, divergent_tick, await _reveal_by_ms(edge, found)))


async def _reveal_by_ms(edge: Edge, found: StoredSubmission) -> int | None:
    """Until when the recording of a submission is asked for; None where it is not."""
    if found.recording_digest is None or found.state not in IN_GOOD_STANDING:
        return None
    committed = await edge.ledger.read(reveals.commitment(found.seq), ReadKind.PLAYERS)
    return committed.due_at_ms if committed else None


def remembered(request: web.Request, board: Board, window: str, render: Render) -> CachedPage:
    """The page for the next who asks for it in these words, until the window ends: then it may be in the archive."""
    until_ms = window_named(board.policy, window).end_ms
    return request.app[PAGES].remember(request, board, window, render, until_ms=until_ms)


async def _page(
    edge: Edge, board: Board, window: str, ranks: RankKind, start: Cut | int, count: int
) -> RenderedPage:
    found = await edge.readers[board.name].page(window, start, count, ranks)
    return _rendered(edge, board, window, ranks, found, start if isinstance(start, Cut) else None)


async def _entry(edge: Edge, board: Board, window: str, ranks: RankKind, player: str) -> RenderedPage:
    if (below := await _below(edge, board, window, ranks, player)) is not None:
        return below
    found = await _around(edge, board, window, ranks, player, 0)
    headers = {"Scoregate-Window": window} | found.headers
    [entry] = found.page.entries
    position, is_from_index = await edge.distributions[board.name].position_of(window, entry, ranks)
    shown = json_bytes(entry_read(entry, position))
    return RenderedPage(shown, headers, is_from_index=found.is_from_index and is_from_index)


async def _below(edge: Edge, board: Board, window: str, ranks: RankKind, player: str) -> RenderedPage | None:
    """The standing of a player below the ranks that the board keeps, from the ledger, and where it is by estimate."""
    if not board.policy.exact_ranks:
        return None
    kept = await edge.readers[board.name].around(window, player, 0, ranks)
    if kept.page.entries or not kept.is_from_index:
        return None
    found = await edge.distributions[board.name].below_head(window, player)
    if found is None:
        return None
    headers = {"Scoregate-Window": window} | (ESTIMATED if found[1].error else SOURCE)
    return RenderedPage(json_bytes(standing_read(*found)), headers, is_from_index=False)


async def _neighbours(
    edge: Edge, board: Board, window: str, ranks: RankKind, player: str, radius: int
) -> RenderedPage:
    return _rendered(edge, board, window, ranks, await _around(edge, board, window, ranks, player, radius))


async def _around(
    edge: Edge, board: Board, window: str, ranks: RankKind, player: str, radius: int
) -> SourcedPage:
    found = await edge.readers[board.name].around(window, player, radius, ranks)
    if not found.page.entries:
        raise Problem(
            ProblemType.NOT_FOUND,
            "the player has no entry on this board",
            headers=found.headers,
            ranked=False,
            total=found.page.total,
        )
    return found


def _rendered(
    edge: Edge, board: Board, window: str, ranks: RankKind, found: SourcedPage, cut: Cut | None = None
) -> RenderedPage:
    following, preceding = edge.cursors.beside(board, window, ranks, found.page, cut)
    body = json_bytes(entry_page(board.name, window, found.page, following, preceding))
    return RenderedPage(body, found.headers, is_from_index=found.is_from_index)


async def _rank(edge: Edge, submission: StoredSubmission) -> int | None:
    """The all-time rank of a promoted submission's player; None when it has none or too many ask the ledger for one."""
    if submission.state is not State.PROMOTED or submission.board not in edge.readers:
        return None
    reader = edge.readers[submission.board]
    try:
        found = await reader.around("alltime", submission.player, 0, reader.index.ranking.policy.ranks[0])
    except Problem:
        return None
    return found.page.entries[0].rank if found.page.entries else None


async def _divergent_tick(edge: Edge, submission: StoredSubmission) -> int | None:
    """The first checkpoint at which the replay differed, if the policy tells it to the players of this build."""
    board = edge.boards.get(submission.board)
    build = board and board.policy.builds.get(submission.build)
    if submission.reason is not Reason.DIVERGED or not build or not build.tells_divergence:
        return None
    *_, last = await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.PLAYERS)
    tick = last["detail"].get("first_divergent_tick")
    return tick if isinstance(tick, int) else None


def _rank_kind(board: Board, request: web.Request) -> RankKind:
    """The kind of rank that the query asks for, or the board's own."""
    kinds = {kind.value: kind for kind in board.policy.ranks}
    asked = request.query.get("ranks")
    if asked is None:
        return board.policy.ranks[0]
    if asked not in kinds:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"ranks: the board keeps {', '.join(kinds)}")
    return kinds[asked]


async def window_of(edge: Edge, board: Board, request: web.Request, as_of_ms: int | None = None) -> str:
    """The name of the window that the query asks for: a kind means the one of that instant, or the current one."""
    asked = request.query.get("window", WindowKind.ALLTIME.value)
    kinds = {kind.value: kind for kind in board.policy.windows}
    if asked in kinds:
        return window_at(board.policy, kinds[asked], edge.clock() if as_of_ms is None else as_of_ms).name
    if await is_kept(edge, board, asked):
        return asked
    kind = kinds.get(asked.partition(":")[0])
    if kind is not None:
        current = window_at(board.policy, kind, edge.clock()).name
        raise Problem(
            ProblemType.NOT_FOUND, f"window: there is none of that name; the current one is {current}"
        )
    raise Problem(ProblemType.NOT_FOUND, f"the board keeps the windows {', '.join(kinds)}")


async def is_kept(edge: Edge, board: Board, window: str) -> bool:
    """True for the name of a window that the board keeps, or that is in the archive."""
    if not WINDOW_NAME.fullmatch(window):
        return False
    if window.partition(":")[0] in {kind.value for kind in board.policy.windows}:
        with suppress(ValueError):
            return bool(window_named(board.policy, window))
    return await is_archived(edge, board, window)
