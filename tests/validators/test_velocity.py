"""Velocity: points against time."""

from __future__ import annotations

from policies.fields import SortOrder
from policies.judging import Bounds
from policies.vocabulary import Reason
from tests.support.submissions import a_policy, a_submission
from validators.submission import History
from validators.velocity import velocity


def reasons(policy=None, **submission):
    found = velocity(a_submission(**submission), policy or a_policy(), History())
    return [finding.reason for finding in found]


def test_a_plausible_run_has_no_findings():
    """The control: twenty seconds, fifty points a second, sent after twenty-five."""
    assert [] == reasons()


def test_V01_points_come_no_faster_than_the_game_gives_them():
    """2,000 points in 20 s are the ceiling of 100 a second; ten more are too many."""
    assert [] == reasons(score=2_000)
    assert [Reason.VELOCITY_POINTS] == reasons(score=2_010)


def test_a_run_shorter_than_a_second_is_measured_as_one_second():
    """A few points in the first ticks are not an infinite pace."""
    assert [] == reasons(score=100, ticks=6)
    assert [Reason.VELOCITY_POINTS] == reasons(score=110, ticks=6)


def test_V11_an_ascending_board_has_no_pace_of_points():
    """A lap time in milliseconds is not points."""
    assert [] == reasons(a_policy(order=SortOrder.ASCENDING), score=10_000)


def test_points_are_counted_from_0_or_from_a_lowest_score_above_it():
    """What a board takes below 0 makes no honest run too fast; what everybody has from the first tick on is no pace."""
    for lowest, points in ((-10_000, 0), (0, 0), (3_000, 3_000)):
        policy = a_policy(score=Bounds(minimum=lowest, maximum=10_000, step=10))
        assert [] == reasons(policy, score=points + 2_000)
        assert [Reason.VELOCITY_POINTS] == reasons(policy, score=points + 2_010)
