"""The clock: ticks against the wall clock."""

from __future__ import annotations

import pytest

from policies.judging import Velocity
from policies.vocabulary import Expected, Reason
from tests.support.submissions import a_policy, a_submission
from validators.clock import clock
from validators.judge import judge
from validators.submission import History


def test_P14_ticks_cannot_outrun_the_wall_clock():
    """20 s of play fit in 18 s and 2 s of slack, and not in a millisecond less."""
    assert () == clock(a_submission(elapsed_s=18.0), a_policy(), History())
    [finding] = clock(a_submission(elapsed_s=17.999), a_policy(), History())
    assert Reason.VELOCITY_TIME is finding.reason
    assert Expected(at_most=19.999, unit="s of play since the ticket") == finding.expected


@pytest.mark.parametrize("pace", [None, 1_000.0])
def test_a_board_that_does_not_say_how_long_a_tick_is_judges_no_time(pace: float | None):
    """Ticks are the game's own there: the judge takes them for time where a replay or a pace says what they are."""
    run = a_submission(score=10, ticks=100_000, elapsed_s=1.0)
    policy = a_policy(writes="open", replay=None, builds={}, velocity=Velocity(points_per_second=pace))
    reasons = [each.reason for each in judge(run, policy, History(), digest="sha256:p").findings]
    assert (pace is not None) == (Reason.VELOCITY_TIME in reasons)
