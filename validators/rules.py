"""Whether the rules of the board are true of the claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.model import Policy
from policies.rules import Rule
from policies.vocabulary import Expected, Finding, Mode, Reason
from validators.studio_findings import StudioFinding
from validators.submission import Submission


def rules(submission: Submission, policy: Policy) -> Iterator[StudioFinding]:
    """A finding for each rule that is not true of the claim, or has no answer for it; its code is the rule's name.

    All are asked at once: an honest claim costs one evaluation. A rule without an answer (a sum too large, a division
    by zero, a statistic that is missing) rejects nobody, since it may be the rule that is wrong. Nor does it let anybody
    past who found numbers that it has no answer for: what would reject flags instead.
    """
    if policy.compiled_rules.together is None:
        return
    claim = _claim(submission)
    if policy.compiled_rules.together.holds(claim):
        return
    for rule, mode in policy.compiled_rules.weighed:
        if (found := _found(rule, claim)) is not None:
            is_failure = found.reason is Reason.RULE_FAILED
            yield StudioFinding(Mode.FLAG if is_failure and mode is Mode.REJECT else mode, "rules", found)


def _claim(submission: Submission) -> dict[str, Any]:
    return {
        "score": submission.claim.score,
        "ticks": submission.claim.ticks,
        "elapsed_ms": submission.elapsed_ms,
        "build": submission.build,
        "stats": dict(submission.claim.stats),
    }


def _found(rule: Rule, claim: dict[str, Any]) -> Finding | None:
    answer = rule.condition.holds(claim)
    if answer:
        return None
    reason = Reason.RULE_FAILED if answer is None else Reason.RULE_BROKEN
    return Finding(reason, 0, Expected(at_least=1, at_most=1, unit="true"), code=rule.name)
