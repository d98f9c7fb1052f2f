"""Times that are not certain: nobody is rejected by a difference between our own clocks."""

from __future__ import annotations

from typing import Any

from policies.judging import Delay, Modes
from policies.rules import Rule
from policies.vocabulary import Mode, Reason, Severity, State
from tests.support.submissions import a_policy, a_submission
from validators.judge import Judgement, judge
from validators.submission import History


def _judged(elapsed_s: float, error_ms: int, **changed: Any) -> Judgement:
    run = a_submission(elapsed_s=elapsed_s)._replace(clock_error_ms=error_ms)
    return judge(run, a_policy(**changed), History(), digest="d")


def test_F19_what_only_our_clocks_say_is_flagged():
    """20 s of play within -100 s: impossible by 60 s of doubt, within 120 s it waits for a moderator after its replay."""
    certain = _judged(-100, 60_000)
    assert (State.REJECTED, Reason.VELOCITY_TIME) == (certain.state, certain.reason)
    doubted = _judged(-100, 120_000)
    assert State.PENDING is doubted.state
    [finding] = [each for each in doubted.findings if each.reason is Reason.VELOCITY_TIME]
    assert (Severity.FLAG, "clock", 120_000) == (
        finding.severity,
        finding.validator,
        finding.detail["clock_error_ms"],
    )
    assert State.REJECTED is _judged(17.5, 0).state
    assert State.PENDING is _judged(17.5, 600).state


def test_F19_whatever_goes_by_our_clocks_is_held_to_the_same():
    """A run that is late, or breaks a rule of the board about `elapsed_ms`, by less than our doubt is flagged too."""
    late = {"validators": Modes(delay=Mode.REJECT), "delay": Delay(most_s=60)}
    ruled = {"rules": (Rule(name="not-too-long", rule="elapsed_ms < 80000"),)}
    for changed, reason in ((late, Reason.LATE), (ruled, Reason.RULE_BROKEN)):
        assert (State.REJECTED, reason) == (
            _judged(90, 1_000, **changed).state,
            _judged(90, 1_000, **changed).reason,
        )
        doubted = _judged(90, 30_000, **changed)
        assert (State.PENDING, [Severity.FLAG]) == (
            doubted.state,
            [each.severity for each in doubted.findings if each.reason is reason],
        )


def test_F19_doubt_about_time_saves_nobody_whom_time_does_not_convict():
    """A score beyond the board's bounds is refused, however uncertain the clocks are."""
    run = a_submission(score=10_010)._replace(clock_error_ms=10_000_000)
    judged = judge(run, a_policy(), History(), digest="d")
    assert judged.refusal is not None
    assert Reason.SCORE_BOUNDS is judged.refusal.reason
