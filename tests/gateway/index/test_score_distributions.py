"""Score distributions: percentiles and counts of the index and of SQL beside numpy and SQL's own window functions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.index.board_index import BoardIndex
from gateway.index.connection import connect
from gateway.index.shards import ShardedIndex
from gateway.index.windows import exact_distribution
from gateway.index.windows.exact_distribution import ExactDistributions
from gateway.ledger.sqlite.transaction import SqliteTransaction, drive
from gateway.ledger.standings.distribution import distribution_of
from gateway.ledger.standings.slots import put_standing, read_slot
from gateway.shared_records import ScoreDistribution, Standing, position_at
from policies.errors import IndexNotWhole, IndexUnavailable
from policies.fields import SortOrder
from policies.ranking import Ranking
from tests.gateway.index.test_order_and_projection import a_change
from tests.support.ledger import ledger_in_memory
from tests.support.policies import EXACT_LIMIT, a_ranking
from tests.support.standings import a_standing
from tests.support.valkey import ValkeyServer

REAL = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHARES = [0, 1, 2_500, 3_333, 5_000, 9_000, 9_999, 10_000]
RANKINGS = {
    "first": {},
    "ranged": {"ranges": [-2, 0, 1_000]},
    "fields": {"tie_break": "fields", "tie_fields": [{"stat": "kills"}]},
    "composite": {
        "tie_break": "composite",
        "tie_resolution_ms": 60_000,
        "score": {"minimum": -1_000_000, "maximum": 1_000_000},
    },
}
LARGE = [EXACT_LIMIT, EXACT_LIMIT - 1, -EXACT_LIMIT]


@st.composite
def boards(draw: Any) -> tuple[Ranking, list[Standing]]:
    """A board of any order and tie-break, with entries of which many are tied."""
    kind, order = (
        draw(st.sampled_from(sorted(RANKINGS))),
        draw(st.sampled_from([each.value for each in SortOrder])),
    )
    ranking = a_ranking(order=order, **RANKINGS[kind])
    ends = [] if kind == "composite" else LARGE
    scores = draw(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from([-1000, 1000, *ends])), max_size=25))
    return ranking, [
        a_standing(f"p{at}", score, at_ms=at % 4, seq=at + 1, ranking=ranking, stats={"kills": at % 3})
        for at, score in enumerate(scores)
    ]


def expected(ranking: Ranking, scores: Sequence[int], asked: Sequence[int]) -> ScoreDistribution:
    """The same by plain sorting; the scores at shares as numpy's nearest-rank quantiles of how good they are."""
    is_ascending = ranking.policy.order is SortOrder.ASCENDING
    merits = [-score if is_ascending else score for score in scores]
    better = tuple(sum(each > (-score if is_ascending else score) for each in merits) for score in asked)
    if not scores:
        return ScoreDistribution(0, better, (), None, None)
    found = [
        int(np.sort(np.array(merits, dtype=object))[len(merits) - 1 - position_at(len(merits), each)])
        for each in SHARES
    ]
    if max(map(abs, scores)) < 2**50:  # beyond, numpy's own arithmetic is inexact
        exact = np.percentile(
            merits, [each / 100 for each in SHARES if each % 100 == 0], method="inverted_cdf"
        )
        assert exact.tolist() == [found[at] for at, each in enumerate(SHARES) if each % 100 == 0]
    at = tuple(-each if is_ascending else each for each in found)
    ends = (min(scores), max(scores)) if is_ascending else (max(scores), min(scores))
    return ScoreDistribution(len(scores), better, at, *ends)


async def in_redis(
    valkey: ValkeyServer, ranking: Ranking, standings: Sequence[Standing], shards: int
) -> BoardIndex:
    client = connect(valkey.url, timeout_ms=5_000)
    await client.flushall()
    index = BoardIndex(client, ranking)
    if shards > 1 and not ranking.policy.ranges:
        index = ShardedIndex(client, Ranking(ranking.policy.model_copy(update={"shards": shards})))
    for each in standings:
        await index.project(a_change(each.seq, each))
    return index


def in_sql(
    ranking: Ranking, standings: Sequence[Standing], asked: Sequence[int]
) -> tuple[ScoreDistribution, list[Any]]:
    """What SQL says by way of places, and each standing's (score, CUME_DIST in percent)."""
    with closing(ledger_in_memory()) as connection:
        tx = SqliteTransaction(connection)
        for each in standings:
            held = drive(read_slot(tx, ranking, "alltime", each.player))
            drive(put_standing(tx, ranking, each, held))
        distribution = drive(distribution_of(ranking, "alltime", asked, SHARES)(tx))
        worst_first = "DESC" if ranking.policy.order is SortOrder.ASCENDING else "ASC"
        rows = connection.execute(
            f"SELECT score, 100 * CUME_DIST() OVER (ORDER BY score {worst_first}) FROM standings"
        ).fetchall()
    return distribution, rows


def all_apart(order: SortOrder) -> tuple[Ranking, list[Standing]]:
    """A board on which everybody has another score."""
    ranking = a_ranking(order=order.value)
    return ranking, [
        a_standing(f"p{at}", at, at_ms=at, seq=at + 1, ranking=ranking, stats={}) for at in range(9)
    ]


@REAL
@given(board=boards(), asked=st.lists(st.integers(-5, 5), max_size=4), shards=st.sampled_from([1, 1, 3]))
@example(board=all_apart(SortOrder.DESCENDING), asked=[], shards=3)
@example(board=all_apart(SortOrder.ASCENDING), asked=[], shards=3)
def test_a_distribution_is_that_of_a_plain_sort(
    valkey: ValkeyServer, board: tuple[Ranking, list[Standing]], asked: list[int], shards: int
):
    """Index, shards and ledger count what is better, and find the score at a share, as numpy and SQL do."""
    ranking, standings = board
    asked = [*asked, *(each.score for each in standings), EXACT_LIMIT, -EXACT_LIMIT]

    async def read() -> ScoreDistribution:
        index = await in_redis(valkey, ranking, standings, shards)
        try:
            return await ExactDistributions(index).of("alltime", asked, SHARES)
        finally:
            await index.client.aclose()

    due = expected(ranking, [each.score for each in standings], asked)
    assert due == asyncio.run(read())
    by_places, rows = in_sql(ranking, standings, asked)
    assert due == by_places
    percentiles = {
        score: 100 * (due.total - better) / due.total
        for score, better in zip(asked, due.better, strict=True)
        if due.total
    }
    assert all(percentiles[score] == pytest.approx(share, rel=1e-12) for score, share in rows)


@pytest.mark.parametrize(
    ("share", "position"), [(0, 9), (1, 9), (1_000, 9), (1_001, 8), (9_999, 0), (10_000, 0)]
)
def test_a_share_is_reached_by_whole_entries(share: int, position: int):
    """The first entry from the last one up with which the share is reached; the last one for a share of nothing."""
    assert position == position_at(10, share)


async def test_a_board_in_shards_is_read_again_if_entries_leave_meanwhile(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """Each share has its score, those of the board without them; one that shrinks all the time is not waited for."""
    standings = [a_standing(f"p{at}", at, seq=at + 1) for at in range(10)]
    index = await in_redis(valkey, a_ranking(), standings, 2)
    leaving = [replace(each, score=None, order=0, member="", seq=100) for each in standings]
    read = index.page

    async def page(window: str, first: int, count: int) -> Any:
        if leaving:
            await index.project(a_change(100, leaving.pop()))
        return await read(window, first, count)

    monkeypatch.setattr(index, "page", page)
    monkeypatch.setattr(exact_distribution, "SHARES_AT_ONCE", 1)
    leaving, kept = leaving[:2], leaving[2:]
    found = await ExactDistributions(index).of("alltime", [5], [10_000, 0])
    assert (8, (4,), (9, 2), 9, 2) == (found.total, found.better, found.at, found.best, found.worst)
    leaving += kept
    with pytest.raises(IndexUnavailable, match="shrinks faster"):
        await ExactDistributions(index).of("alltime", [5], [10_000, 0])
    await index.client.aclose()


async def test_a_board_that_is_not_whole_says_so(valkey: ValkeyServer):
    """A part of a board is not told as all of it."""
    index = await in_redis(valkey, a_ranking(), [a_standing("ada", 1)], 1)
    index.guard()
    with pytest.raises(IndexNotWhole):
        await ExactDistributions(index).of("alltime", [1], [5_000])
    await index.client.aclose()
