"""Rules and ranges of a board, as findings of their modes."""

from __future__ import annotations

import pytest

from policies.choices import Writes
from policies.judging import Bounds, Modes, StatRange
from policies.model import Policy
from policies.rules import Rule
from policies.vocabulary import Expected, Finding, Mode, Reason, Severity, State
from tests.support.submissions import a_policy, a_submission
from validators.judge import Judgement, judge
from validators.submission import History, Submission

RULES = (
    Rule(name="adds-up", rule="score == stats.kills * 100"),
    Rule(name="takes-time", rule="stats.kills * 1000 <= elapsed_ms", mode=Mode.FLAG),
    Rule(name="rate", rule="score / stats.kills <= 1000", mode=Mode.SHADOW),
)


def open_policy(**changed: object) -> Policy:
    """A board without a replay, which takes what its `stats` say."""
    return a_policy(**({"writes": Writes.OPEN, "replay": None, "builds": {}} | changed))


def judged(submission: Submission, policy: Policy) -> Judgement:
    return judge(submission, policy, History(), digest="sha256:p")


def found(judgement: Judgement) -> list[tuple[Reason, str, Severity]]:
    return [(each.reason, each.code, each.severity) for each in judgement.findings]


def test_a_claim_that_all_rules_are_true_of_has_no_findings():
    """An honest claim passes."""
    submission = a_submission(score=300, stats={"kills": 3})
    assert Judgement(State.PENDING, Reason.ACCEPTED) == judged(submission, a_policy(rules=RULES))


def test_V01_each_broken_rule_is_found_by_its_mode():
    """A rule's own mode goes before that of all rules; the code is its name, the policy's digest stands in it.

    It was false (0), and had to be true (1).
    """
    policy = a_policy(rules=RULES, validators=Modes(velocity=Mode.OFF, anomaly=Mode.OFF))
    judgement = judged(a_submission(score=5_000, stats={"kills": 4}), policy)
    assert [
        (Reason.RULE_BROKEN, "adds-up", Severity.REJECT),
        (Reason.RULE_BROKEN, "rate", Severity.NOTE),
    ] == found(judgement)
    broken = judgement.refusal
    assert broken is not None
    assert ("rules", "sha256:p") == (broken.validator, broken.policy)
    assert (0, Expected(at_least=1, at_most=1, unit="true")) == (broken.value, broken.expected)


@pytest.mark.parametrize(
    ("mode", "severity"),
    [(Mode.REJECT, Severity.FLAG), (Mode.FLAG, Severity.FLAG), (Mode.SHADOW, Severity.NOTE)],
)
def test_a_rule_without_an_answer_never_rejects(mode: Mode, severity: Severity):
    """A division by zero that the client chose lets nobody past and refuses nobody."""
    rule = Rule(name="rate", rule="score / stats.kills <= 1000", mode=mode)
    judgement = judged(a_submission(score=0, stats={"kills": 0}), a_policy(rules=(rule,)))
    assert [(Reason.RULE_FAILED, "rate", severity)] == found(judgement)
    assert State.PENDING is judgement.state
    assert judgement.refusal is None


def test_a_rule_that_is_off_is_not_asked():
    """Whether by its own mode or by that of all rules."""
    submission = a_submission(score=300, stats={"kills": 0})
    off = a_policy(rules=RULES[:1], validators=Modes(rules=Mode.OFF))
    assert [] == found(judged(submission, off))
    assert [(Reason.RULE_FAILED, "rate", Severity.NOTE)] == found(
        judged(submission, a_policy(rules=RULES[1:]))
    )


def test_one_rule_without_an_answer_hides_no_other():
    """All are asked one by one where together they are not true."""
    rules = (Rule(name="zero", rule="score / stats.kills < 1"), Rule(name="small", rule="score < 100"))
    judgement = judged(a_submission(score=200, stats={"kills": 0}), a_policy(rules=rules))
    assert [
        (Reason.RULE_FAILED, "zero", Severity.FLAG),
        (Reason.RULE_BROKEN, "small", Severity.REJECT),
    ] == found(judgement)


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ({"kills": 20, "combo": 5}, []),
        ({"kills": 20}, []),
        ({"kills": 21}, [(Reason.STATS_BOUNDS, "kills")]),
        ({"kills": 3}, [(Reason.STATS_BOUNDS, "kills")]),
        ({"kills": -2, "combo": 11}, [(Reason.STATS_BOUNDS, "kills"), (Reason.STATS_BOUNDS, "combo")]),
        ({"kills": 0, "laps": 4}, []),
        ({"kills": 0, "laps": 3}, [(Reason.STATS_BOUNDS, "laps")]),
        ({"combo": 5}, [(Reason.STATS_NAMES, "kills")]),
        ({"kills": 0, "deaths": 1}, [(Reason.STATS_NAMES, "deaths")]),
    ],
)
def test_V01_statistics_are_those_of_the_board_and_in_their_ranges(stats: dict, expected: list):
    """Range, steps from its lowest value on, what is required, and what nobody asked for."""
    ranges = {
        "kills": StatRange(maximum=20, step=2),
        "combo": StatRange(maximum=10, required=False),
        "laps": StatRange(minimum=1, maximum=10, step=3, required=False),
    }
    judgement = judged(a_submission(score=0, stats=stats), open_policy(stats=ranges))
    assert expected == [each[:2] for each in found(judgement)]
    assert bool(expected) == (judgement.refusal is not None)


def test_a_board_that_declares_no_statistics_takes_any():
    """As before there were ranges."""
    assert [] == found(judged(a_submission(score=0, stats={"anything": 7}), open_policy()))


def test_bounds_have_a_mode_like_any_other():
    """In shadow a score outside is a note on a submission that goes on."""
    policy = a_policy(validators=Modes(bounds=Mode.SHADOW))
    judgement = judged(a_submission(score=15), policy)
    assert (State.PENDING, None) == (judgement.state, judgement.refusal)
    expected = Expected(at_least=0, at_most=10_000, unit="points")
    finding = Finding(Reason.SCORE_BOUNDS, 15, expected, 0, {"step": 10}, Severity.NOTE, "bounds", "sha256:p")
    assert (finding,) == judgement.findings


def test_V11_rules_bound_an_ascending_board_too():
    """A lap that is faster than its own sectors allow is no lap."""
    rules = (Rule(name="sectors", rule="score >= stats.sector_one + stats.sector_two"),)
    stats = {"sector_one": StatRange(minimum=4_000), "sector_two": StatRange(minimum=5_000)}
    policy = open_policy(
        order="ascending", score=Bounds(minimum=9_000, maximum=60_000), stats=stats, rules=rules
    )
    lap = {"sector_one": 5_000, "sector_two": 6_000}
    assert judged(a_submission(score=11_000, stats=lap), policy).refusal is None
    assert judged(a_submission(score=10_999, stats=lap), policy).refusal is not None


def test_what_is_found_is_in_the_same_order_in_every_process():
    """Findings are evidence: names that nobody declared come by the alphabet, not as a set happens to hold them."""
    names = sorted(f"unknown_{letter}" for letter in "abcdefgh")
    policy = open_policy(stats={"kills": StatRange(maximum=10)})
    judgement = judged(a_submission(stats=dict.fromkeys(["kills", *reversed(names)], 1)), policy)
    assert names == [each.code for each in judgement.findings if each.reason is Reason.STATS_NAMES]
