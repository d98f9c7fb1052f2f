"""Turns findings into one outcome. The only place that knows what a severity leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from policies.model import Policy, Writes
from policies.vocabulary import Finding, Reason, Severity, State, Verdict, VerdictKind
from validators.anomaly import anomaly
from validators.submission import History, Submission
from validators.velocity import velocity

RULES_VERSION = 1
"""Raised whenever a validator's answer for the same input changes; stands in every event."""

Validator = Callable[[Submission, Policy, History], tuple[Finding, ...]]

VALIDATORS: tuple[Validator, ...] = (velocity, anomaly)
"""Every validator, in the order in which their findings are reported. Bounds come before: they refuse."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Where a submission goes, the reason that decides it, and every finding."""

    state: State
    reason: Reason
    findings: tuple[Finding, ...] = ()


def judge(submission: Submission, policy: Policy, history: History) -> Judgement:
    """The outcome before any replay: `rejected`, `held` (where no replay can tell) or `pending`."""
    findings = tuple(chain.from_iterable([check(submission, policy, history) for check in VALIDATORS]))
    worst = _first(findings, Severity.REJECT)
    if worst:
        return Judgement(State.REJECTED, worst.reason, findings)
    if policy.writes is Writes.OPEN:
        flagged = _first(findings, Severity.FLAG)
        return Judgement(State.HELD, flagged.reason if flagged else Reason.REVIEW_REQUIRED, findings)
    return Judgement(State.PENDING, Reason.ACCEPTED, findings)


def judge_verdict(verdict: Verdict, findings: tuple[Finding, ...]) -> Judgement:
    """The outcome after the replay. A verified run with a flag waits for a moderator; a fault of ours convicts nobody."""
    if verdict.kind is VerdictKind.MISMATCH:
        return Judgement(State.REJECTED, verdict.reason, findings)
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        return Judgement(State.HELD, verdict.reason, findings)
    flagged = _first(findings, Severity.FLAG)
    if flagged:
        return Judgement(State.HELD, flagged.reason, findings)
    return Judgement(State.PROMOTED, Reason.VERIFIED, findings)


def _first(findings: tuple[Finding, ...], severity: Severity) -> Finding | None:
    return next((finding for finding in findings if finding.severity is severity), None)
