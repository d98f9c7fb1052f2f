"""Progress: how far a player's best is beaten at once."""

from __future__ import annotations

from policies.fields import SortOrder
from policies.judging import Progress
from policies.vocabulary import Reason
from tests.support.submissions import a_policy, a_submission
from tests.validators.test_anomaly import known, rule
from validators.progress import progress
from validators.submission import History

CLIMBED = (1_000, 1_100, 900, 1_300, 1_250)
"""Bests of 1,000, 1,100 and 1,300: the largest step is 200."""


def findings(score: int, *scores: int, **policy):
    return tuple(progress(a_submission(score=score), a_policy(**policy), History(known(*scores))))


def test_a_best_is_beaten_by_so_many_own_steps():
    """Three times 200 beyond 1,300 is the edge."""
    assert () == findings(1_900, *CLIMBED)
    [finding] = findings(1_920, *CLIMBED)
    assert (Reason.PROGRESS, 3.1, 5, {"gain": 620}) == (
        finding.reason, finding.value, finding.sample_size, finding.detail
    )  # fmt: skip


def test_the_best_is_that_of_all_runs():
    """A best that is no longer among the newest is still what has to be beaten."""
    history = (5_000, *CLIMBED * 8)
    assert () == findings(4_000, *history)
    assert findings(6_000, *history, progress=Progress(points=900))


def test_small_steps_have_a_floor():
    """Who crept up by 10 each time may still gain thrice the least spread, of 50."""
    assert () == findings(1_170, 1_000, 1_010, 1_020)
    assert findings(1_180, 1_000, 1_010, 1_020)


def test_one_step_is_not_yet_how_a_player_gains():
    """Who improved once may leap; who did so twice has steps to be held against."""
    assert () == findings(9_000, 1_000, 1_100)
    assert findings(9_000, 1_000, 1_100, 1_200)


def test_a_bound_in_points_holds_for_everybody():
    """From the first promoted run on; before it there is nothing to beat."""
    bound = {"progress": Progress(points=500)}
    [finding] = findings(1_510, 1_000, **bound)
    assert (510, 500) == (finding.value, finding.expected.at_most)
    assert () == findings(1_500, 1_000, **bound)
    assert () == findings(9_000, **bound)


def test_with_logarithms_a_step_is_a_ratio():
    """The largest step was by 2: by 8 again is the edge of three."""
    policy = {"anomaly": rule(transform="log", spread_floor=1.0)}
    bests = (99, 199, 249)
    assert () == findings(1_990, *bests, **policy)
    assert findings(2_010, *bests, **policy)


def test_lower_is_better_on_an_ascending_board():
    """The bests go down, and so does what is too far."""
    times = (9_000, 8_900, 8_700)
    assert () == findings(8_100, *times, order=SortOrder.ASCENDING)
    assert findings(8_090, *times, order=SortOrder.ASCENDING)
    assert () == findings(9_900, *times, order=SortOrder.ASCENDING)
