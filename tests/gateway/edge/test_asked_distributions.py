"""Percentiles and histograms by what a query asks for, beside plain counts over the same scores, without an edge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.distribution import (
    _edges,
    _histogram,
    _histogram_by_edges,
    _percentiles,
    _shares,
    show_distribution,
)
from gateway.edge.reads.distribution_reader import SourcedDistribution, percentile, relative_position
from gateway.edge.wire.read_models import Bin, Distribution, Percentiles, ScoreAt
from gateway.shared_records import ScoreDistribution
from tests.support.archives import a_board
from tests.support.thorough import examples

ASCENDING, DESCENDING = a_board(order="ascending"), a_board()
SCORES = st.lists(st.integers(-20, 20), min_size=1, max_size=30)
LIMIT = 2**53 - 1


def plain(scores: Sequence[int], *, is_ascending: bool, error: float = 0.0) -> Any:
    """A source that counts one by one."""
    ranked = sorted(scores, reverse=not is_ascending)

    async def source(asked: Sequence[int], shares: Sequence[int]) -> SourcedDistribution:
        better = tuple(
            sum(each < score if is_ascending else each > score for each in scores) for score in asked
        )
        at = tuple(
            next(
                each for each in reversed(ranked) if 10_000 * _no_better(ranked, each) >= share * len(ranked)
            )
            for share in shares
            if ranked
        )
        ends = (ranked[0], ranked[-1]) if ranked else (None, None)
        counted = ScoreDistribution(len(scores), better, at, *ends)
        return SourcedDistribution(counted, is_from_index=True, error=error)

    return source


def _no_better(ranked: Sequence[int], score: int) -> int:
    return len(ranked) - ranked.index(score)


def asked(view: Any, board: Any, scores: Sequence[int], **source: Any) -> Any:
    source = {"is_ascending": board is ASCENDING} | source
    answer, _ = asyncio.run(view(board, "alltime", plain(scores, **source)))
    return answer


@settings(max_examples=examples(40))
@given(SCORES, st.integers(1, 45), st.sampled_from([ASCENDING, DESCENDING]))
def test_equal_bins_cover_all_scores_once(scores: list[int], bins: int, board: Any):
    """From the lowest score to the highest, without a gap, as wide as each other, and no more than were asked for."""
    shown = asked(partial(_histogram, bins), board, scores)
    least, most = [each.least for each in shown.bins], [each.most for each in shown.bins]
    assert (min(scores), max(scores), len(scores)) == (least[0], most[-1], shown.total)
    assert [end + 1 for end in most[:-1]] == least[1:]
    assert [sum(low <= each <= high for each in scores) for low, high in zip(least, most, strict=True)] == [
        each.count for each in shown.bins
    ]
    width = -(-(max(scores) - min(scores) + 1) // bins)
    assert {width} >= {high - low + 1 for low, high in zip(least[:-1], most[:-1], strict=True)}
    assert 1 <= most[-1] - least[-1] + 1 <= width


@settings(max_examples=examples(40))
@given(
    st.lists(st.integers(-20, 20), max_size=30),
    st.sets(st.integers(-25, 25), min_size=1, max_size=8).map(sorted),
    st.sampled_from([ASCENDING, DESCENDING]),
)
def test_bins_between_edges_count_what_lies_between_them(scores: list[int], edges: list[int], board: Any):
    """One below the first edge, one from each edge on, and the last is open."""
    shown = asked(partial(_histogram_by_edges, edges), board, scores)
    begins, ends = [None, *edges], [*(edge - 1 for edge in edges), None]
    assert shown.bins == [
        Bin(
            least=low,
            most=high,
            count=sum((low is None or low <= each) and (high is None or each <= high) for each in scores),
        )
        for low, high in zip(begins, ends, strict=True)
    ]


@pytest.mark.parametrize("board", [ASCENDING, DESCENDING])
def test_answers_have_the_window_and_the_error_of_their_source(board: Any):
    """Shares are told in percent; an empty window has no bins, and no score at any share."""
    shares, source = [1, 9_990, 10_000], {"error": 0.25}
    at = (11, 7, 7) if board is ASCENDING else (7, 11, 11)
    named = {"board": "tiny", "window": "alltime", "error": 0.25}
    assert Percentiles(
        **named,
        total=2,
        percentiles=[
            ScoreAt(at=each, score=score) for each, score in zip((0.01, 99.9, 100), at, strict=True)
        ],
    ) == asked(partial(_percentiles, shares), board, [7, 11], **source)
    assert Percentiles(**named, total=0, percentiles=[]) == asked(
        partial(_percentiles, shares), board, [], **source
    )
    assert Distribution(**named, total=0, bins=[]) == asked(partial(_histogram, 3), board, [], **source)
    assert Distribution(**named, total=1, bins=[Bin(least=7, most=7, count=1)]) == asked(
        partial(_histogram, 3), board, [7], **source
    )
    counted = asked(partial(_histogram_by_edges, [8]), board, [7, 11], **source)
    assert (named["board"], "alltime", 0.25, 2) == (
        counted.board,
        counted.window,
        counted.error,
        counted.total,
    )


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        (None, [5_000, 7_500, 9_000, 9_500, 9_900]),
        ("0", [0]),
        ("100", [10_000]),
        ("100.00", [10_000]),
        ("100.01", None),
        ("101", None),
        ("0.01", [1]),
        ("0.1", [10]),
        ("7.05,007", [705, 700]),
        ("50,50", [5_000, 5_000]),
        ("99.999", None),
        ("1000", None),
        ("50.", None),
        (".5", None),
        ("-1", None),
        ("+1", None),
        ("50,", None),
        ("", None),
        ("1e1", None),
        ("50, 60", None),
        ("\u0665", None),
        (",".join(["1"] * 20), [100] * 20),
        (",".join(["1"] * 21), None),
    ],
)
def test_shares_are_percents_with_two_decimals(text: str | None, shares: list[int] | None):
    """Twenty at most, from 0 to 100; without any in the query, five usual ones."""
    request = make_mocked_request("GET", "/" if text is None else "/?at=" + text.replace("+", "%2B"))
    refusal = "at: expected up to 20 percentiles from 0 to 100, such as 50,99.9"
    assert (shares or refusal) == outcome(lambda: _shares(request))


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("0", [0]),
        ("-5,0,5", [-5, 0, 5]),
        ("5,5", None),
        ("6,5", None),
        ("1,3,2", None),
        (f"{-LIMIT},{LIMIT}", [-LIMIT, LIMIT]),
        (f"{LIMIT + 1}", None),
        (f"{-LIMIT - 1},0", None),
        ("+1", None),
        ("1.0", None),
        ("", None),
        ("1,", None),
        ("\u0665", None),
        (",".join(map(str, range(99))), list(range(99))),
        (",".join(map(str, range(100))), None),
    ],
)
def test_edges_are_scores_each_greater_than_the_one_before(text: str, edges: list[int] | None):
    """Ninety-nine at most, so that there are a hundred bins, and no score beyond what a score can be."""
    refusal = "edges: expected up to 99 scores, each greater than the one before it"
    assert (edges or refusal) == outcome(lambda: _edges(text))


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("bins=5&edges=1", "bins and edges cannot be combined"),
        ("bins=0", "bins: expected a whole number from 1 to 100"),
        ("bins=101", "bins: expected a whole number from 1 to 100"),
        ("edges=2,1", "edges: expected up to 99 scores, each greater than the one before it"),
    ],
)
async def test_a_histogram_is_asked_for_by_bins_or_by_edges(query: str, detail: str):
    """What is refused is refused before the board is looked for."""
    with pytest.raises(Problem) as refused:
        await show_distribution(make_mocked_request("GET", f"/?{query}"))
    assert (ProblemType.SCHEMA_VIOLATION, detail) == (refused.value.kind, refused.value.detail)


def outcome(read: Any) -> Any:
    """What is read, or the detail of the refusal; of another refusal its kind."""
    try:
        return read()
    except Problem as problem:
        return problem.detail if problem.kind is ProblemType.SCHEMA_VIOLATION else problem.kind


@pytest.mark.parametrize(
    ("total", "better", "percent"),
    [(0, 0, 0.0), (1, 0, 100.0), (4, 0, 100.0), (4, 1, 75.0), (4, 3, 25.0), (4, 4, 0.0)],
)
def test_a_percentile_is_the_share_that_is_no_better(total: int, better: int, percent: float):
    """The best have 100, and of a window that has just emptied there is no share."""
    assert percent == percentile(total, better)
    assert (total, percent, None, 0.0) == relative_position(total, better, 5, None)
    assert [(total, percent, 3, 0.0)] * 2 == [relative_position(total, better, 5, each) for each in (8, 2)]


@pytest.mark.parametrize(
    ("error", "is_from_index", "source"), [(0.0, True, {}), (0.0, False, "ledger"), (0.1, False, "sketch")]
)
def test_an_answer_names_its_source_unless_it_is_the_index(error: float, *, is_from_index: bool, source: Any):
    """Readers see that an answer is estimated, or that it is slow because the ledger gave it."""
    sourced = SourcedDistribution(ScoreDistribution(0, (), (), None, None), is_from_index, 0, error)
    assert (source and {"Scoregate-Source": source}) == sourced.headers
