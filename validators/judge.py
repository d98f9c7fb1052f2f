"""Turns findings into one outcome. The only place that knows what a mode and a severity lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from policies.model import Policy, Writes
from policies.vocabulary import SEVERITIES, Finding, Mode, Reason, Severity, State, Verdict, VerdictKind
from validators.anomaly import anomaly
from validators.clock import clock
from validators.submission import History, Submission
from validators.velocity import velocity

RULES_VERSION = 2
"""Raised whenever a validator's answer for the same input changes; stands in every event."""


class Validator(NamedTuple):
    """A check, under the name by which a policy gives it a mode (`policies.judging.Modes`)."""

    name: str
    check: Callable[[Submission, Policy, History], Iterable[Finding]]


VALIDATORS: tuple[Validator, ...] = (
    Validator("velocity", velocity),
    Validator("clock", clock),
    Validator("anomaly", anomaly),
)
"""Every validator, in the order in which their findings are reported. Bounds come before: they refuse."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Where a submission goes, the reason that decides it, and every finding."""

    state: State
    reason: Reason
    findings: tuple[Finding, ...] = ()


def judge(submission: Submission, policy: Policy, history: History, *, digest: str) -> Judgement:
    """The outcome before any replay: `rejected`, `held` (where no replay can tell) or `pending`.

    `digest` is the policy's, for the findings.
    """
    findings = tuple(
        chain.from_iterable(
            weighed(name, check(submission, policy, history), policy, digest=digest)
            for name, check in VALIDATORS
            if getattr(policy.validators, name) is not Mode.OFF
        )
    )
    worst = _first(findings, Severity.REJECT)
    if worst:
        return Judgement(State.REJECTED, worst.reason, findings)
    if policy.writes is Writes.OPEN:
        flagged = _first(findings, Severity.FLAG)
        return Judgement(State.HELD, flagged.reason if flagged else Reason.REVIEW_REQUIRED, findings)
    return Judgement(State.PENDING, Reason.ACCEPTED, findings)


def weighed(name: str, findings: Iterable[Finding], policy: Policy, *, digest: str) -> tuple[Finding, ...]:
    """What a board makes of what one of its validators found: the findings with their severity, none if it is off."""
    severity = SEVERITIES.get(getattr(policy.validators, name))
    if severity is None:
        return ()
    return tuple(replace(each, severity=severity, validator=name, policy=digest) for each in findings)


def judge_verdict(verdict: Verdict, findings: tuple[Finding, ...]) -> Judgement:
    """The outcome after the replay, by what was found before and after it.

    A verified run with a flag waits for a moderator, one with a rejecting finding is rejected; a fault of ours convicts
    nobody.
    """
    if verdict.kind is VerdictKind.MISMATCH:
        return Judgement(State.REJECTED, verdict.reason, findings)
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        return Judgement(State.HELD, verdict.reason, findings)
    worst = _first(findings, Severity.REJECT)
    if worst:
        return Judgement(State.REJECTED, worst.reason, findings)
    flagged = _first(findings, Severity.FLAG)
    if flagged:
        return Judgement(State.HELD, flagged.reason, findings)
    return Judgement(State.PROMOTED, Reason.VERIFIED, findings)


def _first(findings: tuple[Finding, ...], severity: Severity) -> Finding | None:
    return next((finding for finding in findings if finding.severity is severity), None)
