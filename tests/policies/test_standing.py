"""What a board's operator makes of all that counts for a player, where everything is folded at once."""

from __future__ import annotations

import pytest

from policies.fields import SortOrder
from policies.ranking import ReachedScore
from policies.vocabulary import SCORE_LIMIT
from tests.support.policies import a_ranking

BOUNDS = {"minimum": -1_000, "maximum": 1_000}

EARLY_BUT_LATE_TO_COME = ReachedScore(7, 10, 9, "late-to-come")
"""Reached before the other and received after it, as a server may bring it."""

REACHED_LAST = ReachedScore(5, 20, 1, "reached-last")


@pytest.mark.parametrize("order", SortOrder)
@pytest.mark.parametrize("operator", ["latest", "sum", "count"])
def test_what_counts_last_is_what_was_reached_last(operator: str, order: SortOrder):
    """By the time of the run and not by the number it was received under; a sum and a count bear that time too."""
    ranking = a_ranking(operator=operator, order=order, score=BOUNDS)
    for counting in ([EARLY_BUT_LATE_TO_COME, REACHED_LAST], [REACHED_LAST, EARLY_BUT_LATE_TO_COME]):
        found = ranking.standing(counting)
        assert found is not None
        score = {"latest": 5, "sum": 12, "count": 2}[operator]
        assert REACHED_LAST._replace(score=score) == found


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_is_held_to_what_a_score_can_be_at_either_end(sign: int):
    """Beyond it Redis would round, and tell two players apart who are not, or the other way round."""
    counting = [
        ReachedScore(sign * SCORE_LIMIT, 1, 1, "all-there-is"),
        ReachedScore(sign, 2, 2, "more"),
    ]
    found = a_ranking(operator="sum", score=BOUNDS).standing(counting)
    assert found is not None
    assert sign * SCORE_LIMIT == found.score
