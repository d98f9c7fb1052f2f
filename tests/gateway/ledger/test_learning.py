"""Baselines in the ledger: folded one by one they are what the promoted scores teach from nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.index import keys
from gateway.ledger import index_pages, queries
from gateway.ledger.judgement import learning
from gateway.ledger.sqlite.transaction import drive
from policies.choices import Operator
from policies.fields import SortOrder
from policies.vocabulary import State
from tests.support.books import Books, board_of
from tests.support.ledger import NOON_MS, new_submission
from validators import baseline
from validators.baseline import (
    PromotedScore,
    RunningBaseline,
    ScoreExtremes,
    extremes_of,
    recent_of,
    subjects_of,
)

RUN = st.tuples(
    st.sampled_from(["ada", "bob"]), st.sampled_from(["b1", "b2"]), st.integers(-3, 3), st.integers(-1, 1)
)
HISTORY = st.lists(RUN, min_size=1, max_size=12).flatmap(
    lambda runs: st.tuples(
        st.just(runs), st.lists(st.lists(st.integers(0, len(runs) - 1), max_size=3), max_size=14)
    )
)


@pytest.fixture(autouse=True, scope="module")
def few_are_kept():
    """Windows that a short history fills."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baseline, "PLAYER_RECENT", 3)
        patch.setattr(baseline, "POPULATION_RECENT", 4)
        yield


def from_nothing(subject: str, scores: list[PromotedScore]) -> RunningBaseline:
    """What these promoted scores teach, in no particular order."""
    learnt = RunningBaseline(recent_of(subject))
    for each in scores:
        learnt = learnt.plus(each)
    return learnt


def play_out(runs: list[Any], steps: list[list[int]]) -> tuple[Books, set[int]]:
    """The books after each step flipped some runs in one transaction, and which are promoted at the end."""
    books, promoted = Books(board_of(Operator.BEST, SortOrder.DESCENDING)), set()
    news = [
        new_submission(f"run-{n}", player=player, build=build, score=score, at_ms=NOON_MS + at)
        for n, (player, build, score, at) in enumerate(runs)
    ]
    books.append(news)
    for step in steps:
        books.flip([f"run-{n}" for n in step], {f"run-{n}" for n in promoted})
        for number in step:
            promoted ^= {number}
    return books, promoted


@settings(max_examples=150, deadline=None)
@given(history=HISTORY)
@example(history=([("ada", "b1", score, 0) for score in range(6)], [[0, 1, 2, 3, 4, 5], [5]]))
def test_V05_a_baseline_folded_step_by_step_is_the_one_folded_from_nothing(history: Any):
    """Counts, sums, the newest in their order, and the ends: of player, build and board, after any promotions and revocations."""
    runs, steps = history
    books, promoted = play_out(runs, steps)
    due: dict[str, list[PromotedScore]] = {}
    for number in promoted:
        player, build, score, at = runs[number]
        for subject in subjects_of(player, build):
            due.setdefault(subject, []).append(PromotedScore(NOON_MS + at, number + 1, score))
    stored = drive(queries.baselines_page("tiny", after=None, count=9)(books.tx))
    assert set(due) <= {each.player for each in stored}
    for each in stored:
        assert from_nothing(each.player, due.get(each.player, [])).baseline == each.known


def test_an_index_value_reads_back_as_the_same_baseline():
    """Of somebody with scores, of one whose only score was revoked, and of whole numbers at their limit."""
    books, _ = play_out(
        [("ada", "b1", 2**53 - 1, 0), ("ada", "b1", -7, 1), ("bob", "b2", 1, 0)], [[0, 1], [2], [2]]
    )
    stored = drive(index_pages.baselines_for("tiny", ["ada", "bob", "@b1", "@b2", ""])(books.tx))
    assert 5 == len(stored)
    assert [each.known for each in stored] == [
        keys.baseline_from_value(keys.baseline_value(each)) for each in stored
    ]


def test_only_what_ceases_to_count_is_read_again(monkeypatch: pytest.MonkeyPatch):
    """A promotion costs no look at other submissions; the revocation of one within the newest does."""
    asked: list[str] = []
    inner = learning._promoted

    async def counted(tx: Any, board: str, subject: str, folded: Any) -> Any:
        asked.append(subject)
        return await inner(tx, board, subject, folded)

    monkeypatch.setattr(learning, "_promoted", counted)
    runs = [("ada", "b1", score, at) for at, score in enumerate([5, 9, 1, 6, 7, 6, 5])]
    books, _ = play_out(runs, [[n] for n in range(7)])
    assert [] == asked
    books.decide("run-0", State.REVOKED)
    assert [] == asked
    books.decide("run-6", State.REVOKED)
    assert ["ada", "@b1", ""] == asked


@given(st.lists(st.integers(-9, 9)))
def test_ends_of_parts_are_the_ends_of_all(scores: list[int]):
    """As min and max say; none of nothing."""
    expected = ScoreExtremes(min(scores), max(scores)) if scores else ScoreExtremes()
    assert expected == extremes_of([ScoreExtremes(), *(ScoreExtremes(each, each) for each in scores)])
