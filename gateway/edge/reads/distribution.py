"""Shows how scores are distributed in a window: the scores at percentiles, and a histogram."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

from aiohttp import web
from pydantic import BaseModel

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import json_bytes
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import Archive, archive_response
from gateway.edge.reads.distribution_reader import SourcedDistribution
from gateway.edge.reads.entries import remembered, window_of
from gateway.edge.reads.own_archive import archive_for
from gateway.edge.reads.own_view import reader_for
from gateway.edge.reads.page_cache import PAGES, RenderedPage
from gateway.edge.wire import read_models
from gateway.shared_records import WHOLE_SHARE
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import SCORE_LIMIT

SHARES_LIMIT: Final = 20
BINS_LIMIT: Final = 100
DEFAULT_SHARES: Final = "50,75,90,95,99"

_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?")
_EDGE: Final = re.compile(r"-?[0-9]{1,16}")


class DistributionSource(Protocol):
    """Reads the score distribution of one window, as often as a view needs it."""

    async def __call__(self, scores: Sequence[int], shares: Sequence[int]) -> SourcedDistribution:
        """Return how many entries beat each of these scores, and the score at each of these shares."""
        ...


class DistributionView(Protocol):
    """Builds the answer about one window."""

    async def __call__(
        self, board: Board, window: str, source: DistributionSource
    ) -> tuple[BaseModel, SourcedDistribution]:
        """Return the answer, and the distribution that it shows."""
        ...


async def show_percentiles(request: web.Request) -> web.Response:
    """Return the scores at percentiles."""
    return await _show(request, partial(_percentiles, _shares(request)))


async def show_distribution(request: web.Request) -> web.Response:
    """Return a histogram of the scores."""
    if "edges" in request.query:
        if "bins" in request.query:
            raise Problem(ProblemType.SCHEMA_VIOLATION, "bins and edges cannot be combined")
        return await _show(request, partial(_histogram_by_edges, _edges(request.query["edges"])))
    return await _show(request, partial(_histogram, whole_number(request, "bins", 20, 1, BINS_LIMIT)))


async def histogram_with(
    edge: Edge, board: Board, window: str, score: int, *, bins: int
) -> tuple[read_models.Distribution, int]:
    """Return a histogram of a current window, and how many of its entries a score beats or equals."""
    source = partial(edge.of(board).distributions.of, window)
    histogram, _ = await _histogram(bins, board, window, source)
    (better,) = (await source([score], ())).distribution.better
    return histogram, max(0, histogram.total - better)


async def _show(request: web.Request, view: DistributionView) -> web.Response:
    pages = request.app[PAGES]
    if (page := await pages.page_of(request)) is not None:
        return await pages.answer(request, page)
    edge, board = request.app[EDGE], await board_of(request)
    window = await window_of(edge, board, request)
    if (archive := await archive_for(request, board, window)) is not None:
        answer, sourced = await view(board, window, partial(_from_archive, archive))
        return archive_response(request, answer, sourced.revision)
    reader = await reader_for(request, board, window)
    source = partial(replace(edge.of(board).distributions, reader=reader).of, window)
    render = partial(_render, board, window, view, source)
    return await pages.answer(request, remembered(request, board, window, render, reader))


async def _render(
    board: Board, window: str, view: DistributionView, source: DistributionSource
) -> RenderedPage:
    answer, sourced = await view(board, window, source)
    return RenderedPage(json_bytes(answer), sourced.headers, is_from_index=sourced.is_from_index)


async def _from_archive(
    archive: Archive, scores: Sequence[int], shares: Sequence[int]
) -> SourcedDistribution:
    distribution, revision = await archive.distribution(scores, shares)
    return SourcedDistribution(distribution, is_from_index=False, revision=revision)


async def _percentiles(
    shares: Sequence[int], board: Board, window: str, source: DistributionSource
) -> tuple[read_models.Percentiles, SourcedDistribution]:
    sourced = await source((), shares)
    percentiles = [
        read_models.ScoreAt(at=100 * share / WHOLE_SHARE, score=score)
        for share, score in zip(shares, sourced.distribution.at, strict=False)  # an empty window has none
    ]
    total = sourced.distribution.total
    return read_models.Percentiles(
        board=board.name, window=window, total=total, error=sourced.error, percentiles=percentiles
    ), sourced


async def _histogram(
    bins: int, board: Board, window: str, source: DistributionSource
) -> tuple[read_models.Distribution, SourcedDistribution]:
    """Split the range of scores into `bins` bins of equal width, or fewer if it has fewer whole numbers."""
    sourced = await source((), ())
    best, worst = sourced.distribution.best, sourced.distribution.worst
    if best is None or worst is None:
        return _distribution(board, window, sourced, [], ()), sourced
    lowest, highest = sorted((best, worst))
    edges = [*range(lowest, highest + 1, (highest - lowest) // bins + 1), highest + 1]
    # Only the inner edges are read: a score that lands beyond the ends meanwhile counts in the first or the
    # last bin.
    sourced, counts = await _counts(board, source, edges[1:-1])
    return _distribution(board, window, sourced, list(pairwise(edges)), counts), sourced


async def _histogram_by_edges(
    edges: Sequence[int], board: Board, window: str, source: DistributionSource
) -> tuple[read_models.Distribution, SourcedDistribution]:
    """Put a bin between any two edges, one below the first edge, and one from the last edge on."""
    sourced, counts = await _counts(board, source, edges)
    return _distribution(board, window, sourced, list(pairwise((None, *edges, None))), counts), sourced


async def _counts(
    board: Board, source: DistributionSource, edges: Sequence[int]
) -> tuple[SourcedDistribution, list[int]]:
    """Count the scores below the first edge, between any two edges, and from the last edge on."""
    is_ascending = board.policy.order is SortOrder.ASCENDING
    # Where more is better, the scores below an edge are those that do not beat the score just below it.
    sourced = await source(edges if is_ascending else [edge - 1 for edge in edges], ())
    total, better = sourced.distribution.total, sourced.distribution.better
    below = [0, *(better if is_ascending else [total - count for count in better]), total]
    return sourced, [upper - lower for lower, upper in pairwise(below)]


def _distribution(
    board: Board,
    window: str,
    sourced: SourcedDistribution,
    ranges: Sequence[tuple[int | None, int | None]],
    counts: Sequence[int],
) -> read_models.Distribution:
    bins = [
        read_models.Bin(least=begin, most=None if end is None else end - 1, count=count)
        for (begin, end), count in zip(ranges, counts, strict=True)
    ]
    total = sourced.distribution.total
    return read_models.Distribution(
        board=board.name, window=window, total=total, error=sourced.error, bins=bins
    )


def _shares(request: web.Request) -> list[int]:
    """Return the shares that the query asks for, in hundredths of a percent. Raises `schema-violation`."""
    texts = request.query.get("at", DEFAULT_SHARES).split(",")
    matches = [_SHARE.fullmatch(text) for text in texts]
    shares = [int(match[1]) * 100 + int((match[2] or "0").ljust(2, "0")) for match in matches if match]
    if len(shares) < len(texts) or max(shares) > WHOLE_SHARE or len(shares) > SHARES_LIMIT:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION,
            f"at: expected up to {SHARES_LIMIT} percentiles from 0 to 100, such as 50,99.9",
        )
    return shares


def _edges(text: str) -> list[int]:
    """Return the edges that the query asks for. Raises `schema-violation`."""
    texts = text.split(",")
    edges = [int(edge) for edge in texts if _EDGE.fullmatch(edge)]
    is_increasing = len(edges) == len(texts) < BINS_LIMIT and all(a < b for a, b in pairwise(edges))
    if not is_increasing or not all(abs(edge) <= SCORE_LIMIT for edge in edges):
        raise Problem(
            ProblemType.SCHEMA_VIOLATION,
            f"edges: expected up to {BINS_LIMIT - 1} scores, each greater than the one before it",
        )
    return edges
