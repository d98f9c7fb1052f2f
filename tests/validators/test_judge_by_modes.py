"""The judge, beside a plain reading of the policy: each validator in turn, by the mode that the policy names."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.judging import TIME_VALIDATORS, Modes, Velocity
from policies.vocabulary import SEVERITIES, Mode
from tests.support.submissions import a_policy, a_submission
from validators.baseline import Baseline
from validators.judge import VALIDATORS, judge
from validators.submission import History, Submission

MODES = st.builds(Modes, **{validator.name: st.sampled_from(Mode) for validator in VALIDATORS})
SCORES = st.integers(-100, 12_000)
SUBMISSIONS = st.builds(
    lambda opened, submitted, **claim: a_submission(**claim)._replace(
        runs_opened=opened, runs_submitted=submitted
    ),
    st.integers(0, 60),
    st.integers(0, 60),
    score=SCORES,
    ticks=st.integers(0, 4_000),
    elapsed_s=st.floats(0.0, 4_000.0),
    stats=st.dictionaries(st.sampled_from(("kills", "coins")), st.integers(-1, 9)),
)
BASELINES = st.lists(SCORES, max_size=12).map(
    lambda scores: Baseline(
        count=len(scores),
        mean=sum(scores) / len(scores) if scores else 0.0,
        squares=900.0 * len(scores),
        scores=tuple(scores),
        lowest=min(scores, default=None),
        highest=max(scores, default=None),
    )
)
HISTORIES = st.builds(History, BASELINES, BASELINES, BASELINES, st.integers(0, 3))
ANOMALY = {"minimum_history": 3, "minimum_population": 5, "threshold": 1.5}
PRIOR = {"prior": {"mean": 500.0, "spread": 90.0}}
POLICIES = tuple(
    a_policy(**changed)
    for changed in (
        {},
        {"replay": None, "builds": {}, "writes": "open", "velocity": Velocity()},
        {"order": "ascending", "anomaly": ANOMALY | PRIOR},
        {"anomaly": ANOMALY | PRIOR | {"transform": "log"}},
        {"anomaly": ANOMALY | {"transform": "rank", "threshold": 1.0}, "progress": {"points": 50}},
        {"anomaly": ANOMALY, "delay": {"most_s": 5.0}, "abandonment": {"least_runs": 5, "least_share": 0.5}},
        {
            "slow_motion": {"ratio": 1.5, "least_s": 2.0},
            "velocity": Velocity(points_per_second=9.0, slack_s=0.0),
        },
        {"stats": {"kills": {"minimum": 0, "maximum": 5}}, "replay": None, "builds": {}, "writes": "open"},
        {"score": {"minimum": -50, "maximum": 5_000, "step": 7}},
    )
)


@given(SUBMISSIONS, MODES, HISTORIES, st.sampled_from(POLICIES))
def test_findings_are_those_of_each_validator_in_turn(submission, modes, history, board):
    """What is prepared once for a policy changes no finding, no severity and no order."""
    policy = board.model_copy(update={"validators": modes})
    judged = judge(submission, policy, history, digest="sha256:0")
    assert judged.findings == tuple(_one_by_one(submission, policy, history))


def test_a_copy_with_another_mode_is_judged_by_it():
    """A copied section does not keep the severities of the one that it was copied from."""
    policy = a_policy()
    judge(a_submission(score=10_000), policy, History(), digest="sha256:0")
    modes = policy.validators.model_copy(update={"velocity": Mode.OFF})
    judged = judge(
        a_submission(score=10_000), policy.model_copy(update={"validators": modes}), History(), digest=""
    )
    assert "velocity" not in {finding.validator for finding in judged.findings}


def _one_by_one(submission: Submission, policy, history):
    for name, check, _ in VALIDATORS:
        mode = getattr(policy.validators, name)
        if mode is Mode.OFF or (name in TIME_VALIDATORS and not policy.has_tick_rate):
            continue
        for finding in check(submission, policy, history):
            yield replace(finding, severity=SEVERITIES[mode], validator=name, policy="sha256:0")
