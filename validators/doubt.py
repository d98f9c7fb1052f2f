"""What becomes of findings that hang on times which are not certain: nobody is convicted by our own clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from policies.vocabulary import Finding, Reason, Severity
from validators.submission import Submission

Find = Callable[[Submission], Sequence[Finding]]
"""Gives the weighed findings of a submission."""


def certain(submission: Submission, find: Find) -> tuple[Finding, ...]:
    """The findings, of which those that reject do so only if they stand for every time that it can have been.

    The others flag, and say in `clock_error_ms` how large the doubt was. Times are looked at in the middle and at both
    ends, and only where something rejects: an honest run costs one look.
    """
    findings, error_ms = tuple(find(submission)), submission.clock_error_ms
    if not error_ms or not any(each.severity is Severity.REJECT for each in findings):
        return findings
    ends = (submission.received_at_ms - error_ms, submission.received_at_ms + error_ms)
    earlier, later = (_rejecting(find(submission._replace(received_at_ms=each))) for each in ends)
    return tuple(
        each
        if each.severity is not Severity.REJECT or _key(each) in earlier & later
        else replace(each, severity=Severity.FLAG, detail={**each.detail, "clock_error_ms": error_ms})
        for each in findings
    )


def _rejecting(findings: Sequence[Finding]) -> frozenset[tuple[str, Reason, str]]:
    return frozenset(_key(each) for each in findings if each.severity is Severity.REJECT)


def _key(finding: Finding) -> tuple[str, Reason, str]:
    return finding.validator, finding.reason, finding.code
