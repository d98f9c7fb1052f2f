"""Evaluates the board's rules for a claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.model import Policy
from policies.rules import Rule
from policies.vocabulary import Expected, Finding, Mode, Reason
from validators.studio_findings import StudioFinding
from validators.submission import Submission


def rules(submission: Submission, policy: Policy) -> Iterator[StudioFinding]:
    """Find rules that the claim breaks, or that cannot be evaluated for it; the code is the rule's name.

    A rule without a result (a sum too large, a division by zero, a missing statistic) rejects nobody, since
    the rule may be wrong. But it must not let through anybody who found such numbers, so a rejecting rule
    then flags.
    """
    # One evaluation of all rules is enough for an honest claim.
    if policy.compiled_rules.together is None:
        return
    claim = _claim(submission)
    if policy.compiled_rules.together.holds(claim):
        return
    for rule, mode in policy.compiled_rules.weighed:
        if (finding := _finding(rule, claim)) is not None:
            is_failure = finding.reason is Reason.RULE_FAILED
            yield StudioFinding(Mode.FLAG if is_failure and mode is Mode.REJECT else mode, "rules", finding)


def _claim(submission: Submission) -> dict[str, Any]:
    return {
        "score": submission.claim.score,
        "ticks": submission.claim.ticks,
        "elapsed_ms": submission.elapsed_ms,
        "build": submission.build,
        "stats": dict(submission.claim.stats),
    }


def _finding(rule: Rule, claim: dict[str, Any]) -> Finding | None:
    answer = rule.condition.holds(claim)
    if answer:
        return None
    reason = Reason.RULE_FAILED if answer is None else Reason.RULE_BROKEN
    return Finding(reason, 0, Expected(at_least=1, at_most=1, unit="true"), code=rule.name)
