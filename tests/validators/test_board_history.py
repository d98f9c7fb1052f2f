"""BoardHistory: a board's history for whoever goes through the log, by the same folds as the ledger's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.submissions import a_submission
from validators import baseline
from validators.baseline import PromotedScore, recent_of, running_baseline_of, subjects_of
from validators.board_history import BoardHistory

RUNS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(-3, 3)), min_size=1, max_size=10
)


@settings(deadline=None)
@given(RUNS, st.lists(st.integers(0, 9), max_size=30))
def test_V05_what_was_taken_back_was_never_known(runs: Any, flips: list[int]):
    """After any promotions and revocations everybody's history is that of what is promoted at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baseline, "PLAYER_RECENT", 2)
        patch.setattr(baseline, "POPULATION_RECENT", 3)
        submissions = [
            a_submission(score=score)._replace(submission_id=f"r{at}", player=player, build=build)
            for at, (player, build, score) in enumerate(runs)
        ]
        scored = [PromotedScore(at, at, score) for at, (_, _, score) in enumerate(runs)]
        memory, promoted = BoardHistory(), set()
        for at in (each for each in flips if each < len(runs)):
            memory.count(submissions[at], scored[at], -1 if at in promoted else 1)
            promoted ^= {at}
        for asked in submissions:
            for subject, found in zip(
                subjects_of(asked.player, asked.build), _in_order(memory.history(asked)), strict=True
            ):
                due = [
                    scored[at]
                    for at, each in enumerate(submissions)
                    if at in promoted and subject in subjects_of(each.player, each.build)
                ]
                assert running_baseline_of(due, recent_of(subject)).baseline == found


def _in_order(history: Any) -> tuple[Any, Any, Any]:
    return history.player, history.build, history.population
