"""Turns findings into one outcome. Only this module knows what modes and severities lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple
from weakref import ref

from policies.choices import Writes
from policies.judging import TIME_VALIDATORS
from policies.model import Policy
from policies.replaying import BuildStatus
from policies.vocabulary import SEVERITIES, Finding, Reason, Severity, State, Verdict, VerdictKind
from validators.abandonment import abandonment, may_be_abandoning
from validators.anomaly import anomaly, may_be_anomalous
from validators.bounds import bounds, may_break_bounds
from validators.clock import clock, may_outpace_the_clock
from validators.delay import delay, may_be_late
from validators.doubt import certain
from validators.drift import drift, may_drift
from validators.plugins import plugins
from validators.probing import may_be_probing, probing
from validators.progress import may_leap, progress
from validators.rules import rules
from validators.slow_motion import may_be_slowed, slow_motion
from validators.stats import may_break_stats, stats
from validators.submission import History, MayFind, Submission
from validators.velocity import may_be_fast, velocity

RULES_VERSION = 3
"""Raised whenever a validator's result for the same input changes; stored in every event."""


_HELD_BUILDS = {
    BuildStatus.PROVISIONAL: Reason.BUILD_PROVISIONAL,
    BuildStatus.BLOCKED: Reason.BUILD_BLOCKED,
}
"""Why a verified run of such a build waits for a moderator."""


class Validator(NamedTuple):
    """A check, and the name by which a policy sets its mode (`policies.judging.Modes`).

    `prepare` returns, for a policy, what tells cheaply that the check would find nothing, as for most runs.
    """

    name: str
    check: Callable[[Submission, Policy, History], Iterable[Finding]]
    prepare: Callable[[Policy], MayFind]


VALIDATORS: tuple[Validator, ...] = (
    Validator("bounds", bounds, may_break_bounds),
    Validator("stats", stats, may_break_stats),
    Validator("velocity", velocity, may_be_fast),
    Validator("clock", clock, may_outpace_the_clock),
    Validator("slow_motion", slow_motion, may_be_slowed),
    Validator("delay", delay, may_be_late),
    Validator("abandonment", abandonment, may_be_abandoning),
    Validator("anomaly", anomaly, may_be_anomalous),
    Validator("drift", drift, may_drift),
    Validator("progress", progress, may_leap),
    Validator("probing", probing, may_be_probing),
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


_ACCEPTED = Judgement(State.PENDING, Reason.ACCEPTED)


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
    prepared = _prepared_for(policy)
    findings = certain(submission, lambda run: _found(run, policy, prepared, history, digest=digest))
    if not findings and build is not BuildStatus.BLOCKED and policy.writes is not Writes.OPEN:
        return _ACCEPTED
    worst = _first(findings, Severity.REJECT)
    if worst:
        return Judgement(State.REJECTED, worst.reason, findings)
    if build is BuildStatus.BLOCKED:
        return Judgement(State.HELD, Reason.BUILD_BLOCKED, findings)
    if policy.writes is Writes.OPEN:
        flagged = _first(findings, Severity.FLAG)
        return Judgement(State.HELD, flagged.reason if flagged else Reason.REVIEW_REQUIRED, findings)
    return Judgement(State.PENDING, Reason.ACCEPTED, findings)


class _PreparedCheck(NamedTuple):
    """A validator that a policy turns on, with the severity of its findings."""

    name: str
    check: Callable[[Submission, Policy, History], Iterable[Finding]]
    may_find: MayFind
    severity: Severity


class _Prepared(NamedTuple):
    """What a policy turns on: checks in their order, and whether the studio has rules or validators."""

    policy: ref[Policy]
    checks: tuple[_PreparedCheck, ...]
    has_own: bool


_prepared: dict[int, _Prepared] = {}
"""By the policy's identity, since a policy never changes and its copies are others."""


def _prepared_for(policy: Policy) -> _Prepared:
    prepared = _prepared.get(id(policy))
    if prepared is None or prepared.policy() is not policy:
        prepared = _prepared[id(policy)] = _prepare(policy)
    return prepared


def _prepare(policy: Policy) -> _Prepared:
    severities, key = policy.validators.severities, id(policy)
    checks = tuple(
        _PreparedCheck(name, check, prepare(policy), severities[name])
        for name, check, prepare in VALIDATORS
        if name in severities and (policy.has_tick_rate or name not in TIME_VALIDATORS)
    )
    has_own = policy.compiled_rules.together is not None or bool(policy.plugins)
    forget = _prepared.pop  # bound here, since a policy may outlive this module when the process ends
    return _Prepared(ref(policy, lambda _: forget(key, None)), checks, has_own)


def _found(
    submission: Submission, policy: Policy, prepared: _Prepared, history: History, *, digest: str
) -> tuple[Finding, ...]:
    """Return the weighed findings of all the board's validators."""
    findings: list[Finding] = []
    for name, check, may_find, severity in prepared.checks:
        if may_find(submission, history):
            findings += (
                replace(finding, severity=severity, validator=name, policy=digest)
                for finding in check(submission, policy, history)
            )
    if prepared.has_own:
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
