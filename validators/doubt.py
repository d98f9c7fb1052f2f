"""Weakens findings that depend on uncertain times, so that our own clocks convict nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from policies.vocabulary import Finding, Reason, Severity
from validators.submission import Submission

Find = Callable[[Submission], Sequence[Finding]]
"""Returns the weighed findings of a submission."""


def certain(submission: Submission, find: Find) -> tuple[Finding, ...]:
    """Return the findings; those that reject do so only if they hold for every possible time.

    The others flag, with the doubt in `clock_error_ms`. Times are tried in the middle and at both ends, the
    ends only if something rejects, so an honest run is judged once.
    """
    findings, error_ms = tuple(find(submission)), submission.clock_error_ms
    if not error_ms or not any(finding.severity is Severity.REJECT for finding in findings):
        return findings
    ends_ms = (submission.received_at_ms - error_ms, submission.received_at_ms + error_ms)
    earlier, later = (_rejecting(find(submission._replace(received_at_ms=end_ms))) for end_ms in ends_ms)
    return tuple(
        finding
        if finding.severity is not Severity.REJECT or _key(finding) in earlier & later
        else replace(finding, severity=Severity.FLAG, detail={**finding.detail, "clock_error_ms": error_ms})
        for finding in findings
    )


def _rejecting(findings: Sequence[Finding]) -> frozenset[tuple[str, Reason, str]]:
    return frozenset(_key(finding) for finding in findings if finding.severity is Severity.REJECT)


def _key(finding: Finding) -> tuple[str, Reason, str]:
    return finding.validator, finding.reason, finding.code
