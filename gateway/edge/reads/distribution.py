"""Reading how the scores of a window are spread: scores at percentiles, and a histogram."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

from aiohttp import web
from pydantic import BaseModel

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import json_bytes
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import Archive, archive_response, archived
from gateway.edge.reads.entries import remembered, window_of
from gateway.edge.reads.page_cache import PAGES, Drawn
from gateway.edge.reads.score_distribution import FoundSpread
from gateway.edge.wire import read_models
from gateway.records import WHOLE_SHARE
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import SCORE_LIMIT

SHARES_LIMIT: Final = 20
BINS_LIMIT: Final = 100
DEFAULT_SHARES: Final = "50,75,90,95,99"

_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?")
_EDGE: Final = re.compile(r"-?[0-9]{1,16}")


class Look(Protocol):
    """How the scores of one window are spread, for as many looks as it takes."""

    async def __call__(self, scores: Sequence[int], shares: Sequence[int]) -> FoundSpread:
        """How many entries are better than these scores, and the scores at these shares."""
        ...


class View(Protocol):
    """What is shown of one window's spread."""

    async def __call__(self, board: Board, window: str, look: Look) -> tuple[BaseModel, FoundSpread]:
        """The answer, and the look that it is made of."""
        ...


async def show_percentiles(request: web.Request) -> web.Response:
    """The scores at percentiles."""
    return await _show(request, partial(_percentiles, _shares(request)))


async def show_distribution(request: web.Request) -> web.Response:
    """A histogram of the scores."""
    if "edges" in request.query:
        if "bins" in request.query:
            raise Problem(ProblemType.SCHEMA_VIOLATION, "bins and edges do not go together")
        return await _show(request, partial(_histogram_by_edges, _edges(request.query["edges"])))
    return await _show(request, partial(_histogram, whole_number(request, "bins", 20, 1, BINS_LIMIT)))


async def _show(request: web.Request, view: View) -> web.Response:
    pages = request.app[PAGES]
    if (known := pages.known(request)) is not None:
        return await pages.answer(request, known)
    edge, board = request.app[EDGE], board_of(request)
    window = await window_of(edge, board, request)
    if (past := await archived(edge, board, window)) is not None:
        shown, found = await view(board, window, partial(_look_back, past))
        return archive_response(request, shown, found.revision)
    draw = partial(_draw, edge, board, window, view)
    return await pages.answer(request, remembered(request, board, window, draw))


async def _draw(edge: Edge, board: Board, window: str, view: View) -> Drawn:
    shown, found = await view(board, window, partial(edge.spreads[board.name].of, window))
    return Drawn(json_bytes(shown), found.headers, is_of_index=found.is_of_index)


async def _look_back(past: Archive, scores: Sequence[int], shares: Sequence[int]) -> FoundSpread:
    spread, revision = await past.spread(scores, shares)
    return FoundSpread(spread, is_of_index=False, revision=revision)


async def _percentiles(
    shares: Sequence[int], board: Board, window: str, look: Look
) -> tuple[read_models.Percentiles, FoundSpread]:
    found = await look((), shares)
    shown = [
        read_models.ScoreAt(at=100 * share / WHOLE_SHARE, score=score)
        for share, score in zip(shares, found.spread.at, strict=False)  # an empty window has none
    ]
    total = found.spread.total
    return read_models.Percentiles(
        board=board.name, window=window, total=total, error=found.error, percentiles=shown
    ), found


async def _histogram(
    bins: int, board: Board, window: str, look: Look
) -> tuple[read_models.Distribution, FoundSpread]:
    """So many bins of equal width over the scores that there are, or fewer if there are fewer scores than that."""
    found = await look((), ())
    if found.spread.best is None or found.spread.worst is None:
        return _distribution(board, window, found, [], ()), found
    least, most = sorted((found.spread.best, found.spread.worst))
    edges = [*range(least, most + 1, (most - least) // bins + 1), most + 1]
    # Only what is between the bins is asked for: who comes beyond the ends meanwhile is in the first or the last.
    found, counts = await _counts(board, look, edges[1:-1])
    return _distribution(board, window, found, list(pairwise(edges)), counts), found


async def _histogram_by_edges(
    edges: Sequence[int], board: Board, window: str, look: Look
) -> tuple[read_models.Distribution, FoundSpread]:
    """A bin between any two edges, one for all below the first, and one for the rest."""
    found, counts = await _counts(board, look, edges)
    return _distribution(board, window, found, list(pairwise((None, *edges, None))), counts), found


async def _counts(board: Board, look: Look, edges: Sequence[int]) -> tuple[FoundSpread, list[int]]:
    """How many scores are below the first edge, between two of them, and from the last one on."""
    is_ascending = board.policy.order is SortOrder.ASCENDING
    # Where more is better, the scores below an edge are those that nothing from the edge on is better than.
    found = await look(edges if is_ascending else [edge - 1 for edge in edges], ())
    total, better = found.spread.total, found.spread.better
    below = [0, *(better if is_ascending else [total - each for each in better]), total]
    return found, [upper - lower for lower, upper in pairwise(below)]


def _distribution(
    board: Board,
    window: str,
    found: FoundSpread,
    spans: Sequence[tuple[int | None, int | None]],
    counts: Sequence[int],
) -> read_models.Distribution:
    bins = [
        read_models.Bin(least=least, most=None if end is None else end - 1, count=count)
        for (least, end), count in zip(spans, counts, strict=True)
    ]
    return read_models.Distribution(
        board=board.name, window=window, total=found.spread.total, error=found.error, bins=bins
    )


def _shares(request: web.Request) -> list[int]:
    """The shares that the query asks for, in hundredths of a percent. Raises `schema-violation`."""
    texts = request.query.get("at", DEFAULT_SHARES).split(",")
    found = [_SHARE.fullmatch(text) for text in texts]
    shares = [int(each[1]) * 100 + int((each[2] or "0").ljust(2, "0")) for each in found if each]
    if len(shares) < len(texts) or max(shares) > WHOLE_SHARE or len(shares) > SHARES_LIMIT:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION,
            f"at: expected up to {SHARES_LIMIT} percentiles from 0 to 100 as 50,99.9",
        )
    return shares


def _edges(text: str) -> list[int]:
    """The edges that the query asks for. Raises `schema-violation`."""
    texts = text.split(",")
    edges = [int(each) for each in texts if _EDGE.fullmatch(each)]
    are_right = len(edges) == len(texts) < BINS_LIMIT and all(a < b for a, b in pairwise(edges))
    if not are_right or not all(abs(edge) <= SCORE_LIMIT for edge in edges):
        raise Problem(
            ProblemType.SCHEMA_VIOLATION,
            f"edges: expected up to {BINS_LIMIT - 1} scores, each greater than the one before it",
        )
    return edges
