"""Turns findings into one outcome. The only place that knows what a mode and a severity lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from policies.judging import TIME_VALIDATORS
from policies.model import Policy, Writes
from policies.replaying import BuildStatus
from policies.vocabulary import SEVERITIES, Finding, Mode, Reason, Severity, State, Verdict, VerdictKind
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
"""Raised whenever a validator's answer for the same input changes; stands in every event."""


_HELD_BUILDS = {
    BuildStatus.PROVISIONAL: Reason.BUILD_PROVISIONAL,
    BuildStatus.BLOCKED: Reason.BUILD_BLOCKED,
}
"""Why a verified run of such a build is not promoted by the replay alone."""


class Validator(NamedTuple):
    """A check, under the name by which a policy gives it a mode (`policies.judging.Modes`)."""

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
"""Every validator, in the order in which their findings are reported. The studio's own come after them."""

_REFUSING = frozenset({Reason.SCORE_BOUNDS, Reason.STATS_BOUNDS, Reason.STATS_NAMES, Reason.RULE_BROKEN})
"""What a claim cannot be, whoever made it: where that rejects, the client is told so, since an honest one can be wrong too."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Where a submission goes, the reason that decides it, and every finding."""

    state: State
    reason: Reason
    findings: tuple[Finding, ...] = ()

    @property
    def refusal(self) -> Finding | None:
        """What refuses the claim before there is a submission at all; None for one that is to be stored."""
        rejecting = (each for each in self.findings if each.severity is Severity.REJECT)
        return next((each for each in rejecting if each.reason in _REFUSING), None)


def judge(
    submission: Submission,
    policy: Policy,
    history: History,
    *,
    digest: str,
    build: BuildStatus = BuildStatus.ALLOW,
) -> Judgement:
    """The outcome before any replay: `rejected`, `held` (where no replay can or may tell) or `pending`.

    `digest` is the policy's, for the findings; `build` what the submission's build may do now.
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
    """What every validator of the board finds, weighed."""
    built_in = chain.from_iterable(
        weighed(name, check(submission, policy, history), policy, digest=digest)
        for name, check in VALIDATORS
        if getattr(policy.validators, name) is not Mode.OFF
        and (policy.has_tick_rate or name not in TIME_VALIDATORS)
    )
    return (*built_in, *_own(submission, policy, history, digest=digest))


def weighed(name: str, findings: Iterable[Finding], policy: Policy, *, digest: str) -> tuple[Finding, ...]:
    """What a board makes of what one of its validators found: the findings with their severity, none if it is off."""
    severity = SEVERITIES.get(getattr(policy.validators, name))
    if severity is None:
        return ()
    return tuple(replace(each, severity=severity, validator=name, policy=digest) for each in findings)


def _own(submission: Submission, policy: Policy, history: History, *, digest: str) -> Iterator[Finding]:
    """What the studio's own rules and validators found, each weighed by a mode of its own."""
    for mode, name, found in chain(rules(submission, policy), plugins(submission, policy, history)):
        yield replace(found, severity=SEVERITIES[mode], validator=name, policy=digest)


def judge_verdict(
    verdict: Verdict, findings: tuple[Finding, ...], *, build: BuildStatus = BuildStatus.ALLOW
) -> Judgement:
    """The outcome after the replay, by what was found before and after it.

    A verified run with a flag waits for a moderator, and so does one of a build that is not simply allowed; one with a
    rejecting finding is rejected; a fault of ours convicts nobody.
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
