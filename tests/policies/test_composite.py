"""Composite places: a score with the time beside it, in one integer."""

from __future__ import annotations

import pytest

from policies.choices import WindowKind
from policies.ranking import Ranking, ReachedScore
from policies.ties import COMPOSITE_BEGIN_MS, COMPOSITE_SPANS_MS
from policies.windows import window_at
from tests.support.policies import a_ranking

SCORES = {"minimum": -1_000, "maximum": 1_000}
DAY_MS = 86_400_000


def ranking(order: str) -> Ranking:
    return a_ranking(order=order, tie_break="composite", tie_resolution_ms=60_000, score=SCORES)


@pytest.mark.parametrize(("order", "worse"), [("descending", 6), ("ascending", 8)])
@pytest.mark.parametrize("late_ms", [-1, 0, 1, 10 * DAY_MS])
def test_a_late_score_stays_ahead_of_every_worse_one(order: str, worse: int, late_ms: int):
    """However far behind the last slot of its window it was reached, it is shown as the score that it is."""
    board = ranking(order)
    window = window_at(board.policy, WindowKind.ALLTIME, COMPOSITE_BEGIN_MS)
    end_ms = COMPOSITE_BEGIN_MS + COMPOSITE_SPANS_MS[WindowKind.ALLTIME]
    late = board.place(window, "ada", ReachedScore(7, end_ms + late_ms, 1, "late"))
    early = board.place(window, "bea", ReachedScore(worse, COMPOSITE_BEGIN_MS, 2, "early"))
    assert 7 == board.score_at(window.name, late.order)
    assert late.order < early.order
