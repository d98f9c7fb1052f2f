"""The sketch of scores: within its stated error of the truth, also when it is put together of several."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.windows.sketches import ScoreSketch, Sketches, StoredSketch, missing_changes, rank_error
from policies.errors import IndexUnavailable
from policies.fields import SortOrder
from tests.support.policies import EXACT_LIMIT

ORDERS = list(SortOrder)
SHARES = [at / 100 for at in range(1, 101)]


def scores_of(count: int = 60_000) -> list[int]:
    """Scores as a game has them: most are small, many are tied, a few are out of all measure."""
    rng = random.Random(7)
    found = [int(rng.paretovariate(0.5)) for _ in range(count)]
    return [min(each, EXACT_LIMIT) * rng.choice([1, 1, -1]) for each in found]


def sketch_of(order: SortOrder, scores: Sequence[int]) -> ScoreSketch:
    sketch = ScoreSketch(order)
    sketch.add(scores)
    return sketch


def share_of(order: SortOrder, ordered: Sequence[int], score: int) -> float:
    """The share that is not better, of scores in ascending order."""
    if order is SortOrder.DESCENDING:
        return bisect_right(ordered, score) / len(ordered)
    return 1 - bisect_left(ordered, score) / len(ordered)


SURE = 2 * rank_error()
"""What is stated is passed by one answer of a hundred; of twice as much nothing was ever seen to come near."""


def assert_within_error(order: SortOrder, scores: Sequence[int], sketch: ScoreSketch) -> None:
    ordered = sorted(scores)
    asked = random.Random(1).choices(ordered, k=200)
    errors = sorted(abs(share_of(order, ordered, score) - sketch.share(score)) for score in asked)
    assert errors[len(errors) // 2] <= rank_error()
    assert errors[-1] <= SURE
    for share in SHARES:
        score = sketch.score_at(share)
        # Tied scores are at all shares from that of the next worse one on.
        worse = (bisect_left if order is SortOrder.DESCENDING else bisect_right)(ordered, score) / len(
            ordered
        )
        worse = worse if order is SortOrder.DESCENDING else 1 - worse
        assert worse - SURE <= share <= share_of(order, ordered, score) + SURE
    ends = (min(scores), max(scores))
    assert (ends if order is SortOrder.ASCENDING else ends[::-1]) == sketch.ends


@pytest.mark.parametrize("order", ORDERS)
def test_shares_and_quantiles_are_within_the_stated_error(order: SortOrder):
    """For any score and any share, in some kilobytes."""
    scores = scores_of()
    sketch = sketch_of(order, scores)
    assert_within_error(order, scores, sketch)
    assert len(scores) == sketch.count
    assert len(sketch.serialized()) < 40_000
    assert rank_error() < 0.005


@pytest.mark.parametrize("order", ORDERS)
def test_sketches_of_shards_merge_into_one(order: SortOrder):
    """Stored and put together, unequal parts are within the same error as one sketch of all."""
    scores = sorted(scores_of())
    parts = [scores[:100], scores[100:5_000], scores[5_000:5_001], scores[5_001:], []]
    stored = [sketch_of(order, each).serialized() for each in parts]
    merged = ScoreSketch.merged(order, stored)
    assert len(scores) == merged.count
    assert_within_error(order, scores, merged)


def test_few_scores_are_exact():
    """A sketch that has not grown full holds every score, to the largest there are."""
    sketch = sketch_of(SortOrder.DESCENDING, [-EXACT_LIMIT, 0, 0, EXACT_LIMIT - 1, EXACT_LIMIT])
    assert [0.2, 0.6, 0.8, 1.0] == [
        sketch.share(each) for each in (-EXACT_LIMIT, 0, EXACT_LIMIT - 1, EXACT_LIMIT)
    ]
    assert EXACT_LIMIT - 1 == sketch.score_at(0.8)


async def test_what_is_kept_is_read_again(client: Redis, valkey: object):
    """With as of when it is; and what is no sketch is said to be none."""
    sketches = Sketches(client, "b", SortOrder.ASCENDING)
    assert await sketches.of("alltime") is None
    await sketches.keep("alltime", StoredSketch(sketch_of(SortOrder.ASCENDING, [3, 1]), 9, 5, 7), None)
    kept = await sketches.of("alltime")
    assert kept is not None
    assert (9, 5, 7, (1, 3)) == (kept.seq, kept.begun_at_ms, kept.version, kept.sketch.ends)
    assert (0, 9 + 7, 3, 2 + 1) == (
        missing_changes(kept, version=7, total=2),
        missing_changes(kept, version=6, total=9),  # it began again: nothing is known of any entry
        missing_changes(kept, version=10, total=2),
        missing_changes(kept, version=9, total=1),
    )
    await client.hset(keys.sketch("b", "alltime"), "sketch", "forged")
    with pytest.raises(IndexUnavailable):
        await sketches.of("alltime")


async def test_a_sketch_lives_as_long_as_its_window(client: Redis):
    """Whatever lives there was before: one of all time stays, one of a day goes with it."""
    sketches, key = Sketches(client, "b", SortOrder.ASCENDING), keys.sketch("b", "alltime")
    kept = StoredSketch(sketch_of(SortOrder.ASCENDING, [3, 1]), 9, 5, 7)
    lives = []
    for expires_at_ms in (None, 1_921_449_600_000, None):
        await sketches.keep("alltime", kept, expires_at_ms)
        lives.append(await client.pexpiretime(key))
    assert [-1, 1_921_449_600_000, -1] == lives
