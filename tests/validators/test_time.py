"""What time says besides: slow motion, late submissions, runs that were opened and left."""

from __future__ import annotations

import pytest

from policies.judging import Abandonment, Delay, SlowMotion
from policies.vocabulary import Expected, Reason
from tests.support.submissions import a_policy, a_submission
from validators.abandonment import abandonment
from validators.delay import delay
from validators.slow_motion import slow_motion
from validators.submission import History

MINUTE = 3_600


def test_P15_a_run_that_took_three_times_as_long_as_it_was_played_is_found():
    """At the ratio and not a millisecond before; a short run is left out."""
    policy = a_policy(slow_motion=SlowMotion(ratio=3, least_s=30))
    assert () == slow_motion(a_submission(ticks=MINUTE, elapsed_s=179.999), policy, History())
    [finding] = slow_motion(a_submission(ticks=MINUTE, elapsed_s=180), policy, History())
    assert (Reason.SLOW_MOTION, 3.0) == (finding.reason, finding.value)
    assert Expected(at_most=3, unit="s since the ticket for each s of play") == finding.expected
    assert () == slow_motion(a_submission(ticks=1_799, elapsed_s=3_000), policy, History())


def test_a_run_that_comes_long_after_its_end_is_late():
    """Counted from its ticket and its ticks, so play itself is not held against it."""
    policy = a_policy(delay=Delay(most_s=100))
    assert () == delay(a_submission(ticks=MINUTE, elapsed_s=160), policy, History())
    [finding] = delay(a_submission(ticks=MINUTE, elapsed_s=160.001), policy, History())
    assert (Reason.LATE, 100.001) == (finding.reason, finding.value)


@pytest.mark.parametrize(
    ("opened", "submitted", "value"),
    [(20, 2, None), (20, 1, 0.05), (19, 0, None), (20, None, None), (None, None, None), (1000, 99, 0.099)],
)
def test_P21_who_submits_few_of_many_runs_is_found(opened, submitted, value):
    """From `least_runs` on, below `least_share`; counts that are unknown say nothing."""
    policy = a_policy(abandonment=Abandonment(least_runs=20, least_share=0.1))
    run = a_submission()._replace(runs_opened=opened, runs_submitted=submitted)
    found = abandonment(run, policy, History())
    assert ([] if value is None else [value]) == [each.value for each in found]
    assert all(
        (opened, {"opened": opened, "submitted": submitted}) == (f.sample_size, f.detail) for f in found
    )
