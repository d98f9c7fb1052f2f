"""Turns findings into one outcome. Only this module knows what modes and severities lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from policies.choices import Writes
from policies.judging import TIME_VALIDATORS
from policies.model import Policy
from policies.replaying import BuildStatus
from policies.vocabulary import SEVERITIES, Finding, Reason, Severity, State, Verdict, VerdictKind
from validators.abandonment import abandonment
from validators.anomaly import anomaly
from validators.bounds import bounds
from validators.clock import clock
from validators.delay import delay
from validators.doubt import certain
from validators.drift import drift
from validators.plugins import plugins
from validators.probing import probing
from validators.progress import progress
from validators.rules import rules
from validators.slow_motion import slow_motion
from validators.stats import stats
from validators.submission import History, Submission
from validators.velocity import velocity

RULES_VERSION = 3
"""Raised whenever a validator's result for the same input changes; stored in every event."""


_HELD_BUILDS = {
    BuildStatus.PROVISIONAL: Reason.BUILD_PROVISIONAL,
    BuildStatus.BLOCKED: Reason.BUILD_BLOCKED,
}
"""Why a verified run of such a build waits for a moderator."""


class Validator(NamedTuple):
    """A check, and the name by which a policy sets its mode (`policies.judging.Modes`)."""

    name: str
    check: Callable[[Submission, Policy, History], Iterable[Finding]]


VALIDATORS: tuple[Validator, ...] = (
    Validator("bounds", bounds),
    Validator("stats", stats),
    Validator("velocity", velocity),
    Validator("clock", clock),
    Validator("slow_motion", slow_motion),
    Validator("delay", delay),
    Validator("abandonment", abandonment),
    Validator("anomaly", anomaly),
    Validator("drift", drift),
    Validator("progress", progress),
    Validator("probing", probing),
)
"""All validators, in the order in which their findings are reported. The studio's own follow."""

_REFUSING = frozenset({Reason.SCORE_BOUNDS, Reason.STATS_BOUNDS, Reason.STATS_NAMES, Reason.RULE_BROKEN})
"""Reasons that refuse a claim before it is stored. The client is told, because an honest client can be wrong
here too."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The next state of a submission, the deciding reason, and all findings."""

    state: State
    reason: Reason
    findings: tuple[Finding, ...] = ()

    @property
    def refusal(self) -> Finding | None:
        """Return the finding that refuses the claim before it is stored; None if it is to be stored."""
        rejecting = (finding for finding in self.findings if finding.severity is Severity.REJECT)
        return next((finding for finding in rejecting if finding.reason in _REFUSING), None)


def judge(
    submission: Submission,
    policy: Policy,
    history: History,
    *,
    digest: str,
    build: BuildStatus = BuildStatus.ALLOW,
) -> Judgement:
    """Return the outcome before a replay: `rejected`, `held` (a replay may not decide) or `pending`.

    `digest` is the policy's, for the findings; `build` is the current status of the submission's build.
    """
    findings = certain(submission, lambda run: _found(run, policy, history, digest=digest))
    worst = _first(findings, Severity.REJECT)
    if worst:
        return Judgement(State.REJECTED, worst.reason, findings)
    if build is BuildStatus.BLOCKED:
        return Judgement(State.HELD, Reason.BUILD_BLOCKED, findings)
    if policy.writes is Writes.OPEN:
        flagged = _first(findings, Severity.FLAG)
        return Judgement(State.HELD, flagged.reason if flagged else Reason.REVIEW_REQUIRED, findings)
    return Judgement(State.PENDING, Reason.ACCEPTED, findings)


def _found(submission: Submission, policy: Policy, history: History, *, digest: str) -> tuple[Finding, ...]:
    """Return the weighed findings of all the board's validators."""
    severities, is_timed = policy.validators.severities, policy.has_tick_rate
    findings: list[Finding] = []
    for name, check in VALIDATORS:
        severity = severities.get(name)
        if severity is not None and (is_timed or name not in TIME_VALIDATORS):
            # Most validators find nothing, and a loop over nothing costs less than a call.
            for finding in check(submission, policy, history):
                findings.append(replace(finding, severity=severity, validator=name, policy=digest))  # noqa: PERF401
    findings.extend(_own(submission, policy, history, digest=digest))
    return tuple(findings)


def weighed(name: str, findings: Iterable[Finding], policy: Policy, *, digest: str) -> tuple[Finding, ...]:
    """Return a validator's findings with the severity of its mode; none if it is off."""
    severity = policy.validators.severities.get(name)
    if severity is None:
        return ()
    return tuple(replace(finding, severity=severity, validator=name, policy=digest) for finding in findings)


def _own(submission: Submission, policy: Policy, history: History, *, digest: str) -> Iterator[Finding]:
    """Yield the findings of the studio's own rules and validators, each weighed by its own mode."""
    for mode, name, finding in chain(rules(submission, policy), plugins(submission, policy, history)):
        yield replace(finding, severity=SEVERITIES[mode], validator=name, policy=digest)


def judge_verdict(
    verdict: Verdict, findings: tuple[Finding, ...], *, build: BuildStatus = BuildStatus.ALLOW
) -> Judgement:
    """Return the outcome after the replay, from the findings before and after it.

    A verified run waits for a moderator if it has a flag, or if its build is provisional or blocked. One with
    a rejecting finding is rejected. A fault of ours convicts nobody.
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
    if build in _HELD_BUILDS:
        return Judgement(State.HELD, _HELD_BUILDS[build], findings)
    return Judgement(State.PROMOTED, Reason.VERIFIED, findings)


def _first(findings: tuple[Finding, ...], severity: Severity) -> Finding | None:
    return next((finding for finding in findings if finding.severity is severity), None)
