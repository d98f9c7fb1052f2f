"""The clock: ticks against the wall clock."""

from __future__ import annotations

from policies.vocabulary import Expected, Reason
from tests.support.submissions import a_policy, a_submission
from validators.clock import clock
from validators.submission import History


def test_P14_ticks_cannot_outrun_the_wall_clock():
    """20 s of play fit in 18 s and 2 s of slack, and not in a millisecond less."""
    assert () == clock(a_submission(elapsed_s=18.0), a_policy(), History())
    [finding] = clock(a_submission(elapsed_s=17.999), a_policy(), History())
    assert Reason.VELOCITY_TIME is finding.reason
    assert Expected(at_most=19.999, unit="s of play since the ticket") == finding.expected
