"""Examines a recording that was played again: findings besides the verdict, weighed by the board's modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from gateway.ledger.records import VerificationLease
from policies.fields import SortOrder
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics import similarity as forensic_similarity
from replay.forensics import slow_motion, timing
from replay.worker.evidence import RecordingEvidence
from validators.judge import weighed


def examine(board: Board, lease: VerificationLease, evidence: RecordingEvidence) -> tuple[Finding, ...]:
    """Return every finding that only a worker can make."""
    # The checks are generators, so one whose mode is `off` never runs.
    return tuple(
        chain.from_iterable(
            weighed(name, check(board.policy, lease, evidence), board.policy, digest=board.digest)
            for name, check in _CHECKS
        )
    )


def _reuse(policy: Policy, lease: VerificationLease, evidence: RecordingEvidence) -> Iterator[Finding]:
    """Find a recording that another submission sent, unless its score is the worst possible."""
    # A run that ends before its first checkpoint holds nothing of its seed: two players who give up at once
    # have the same recording, and neither stole it.
    worst = policy.score.maximum if policy.order is SortOrder.ASCENDING else policy.score.minimum
    if evidence.same and lease.submission.claim.score != worst:
        expected = Expected(at_most=0, unit="submissions with this recording")
        finding = Finding(Reason.RECORDING_REUSED, len(evidence.same), expected, others=evidence.same)
        yield _with_order(finding, evidence)


def _timing(policy: Policy, _lease: VerificationLease, evidence: RecordingEvidence) -> Iterator[Finding]:
    comparable = evidence.comparable
    if comparable and comparable.inputs:
        scatter = comparable.scatter
        yield from timing.timing(comparable.inputs, policy.ticks_per_second, policy.forensics, scatter)


def _input_rate(policy: Policy, _lease: VerificationLease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.inputs:
        yield from slow_motion.input_rate(evidence.inputs, policy.ticks_per_second, policy.forensics)


def _slow_motion_inputs(
    policy: Policy, lease: VerificationLease, evidence: RecordingEvidence
) -> Iterator[Finding]:
    if evidence.inputs:
        elapsed_s = (lease.submission.received_at_ms - lease.submission.issued_at_ms) / 1000
        yield from slow_motion.slow_motion_inputs(
            evidence.inputs, policy.ticks_per_second, elapsed_s, policy.forensics
        )


def _similarity(policy: Policy, _lease: VerificationLease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.comparable:
        for finding in forensic_similarity.similarity(
            evidence.comparable, evidence.compared, policy.forensics
        ):
            yield _with_order(finding, evidence)


def _with_order(finding: Finding, evidence: RecordingEvidence) -> Finding:
    """Return the finding with the number of others received before this submission; 0 means it was first."""
    # Examined late or early, a submission gets the same finding; only this number tells original from copy.
    earlier = sum(other in evidence.earlier for other in finding.others)
    return replace(finding, detail={**finding.detail, "received_before": earlier})


_CHECKS: Final[
    tuple[tuple[str, Callable[[Policy, VerificationLease, RecordingEvidence], Iterable[Finding]]], ...]
] = (
    ("recording_reuse", _reuse),
    ("timing", _timing),
    ("input_rate", _input_rate),
    ("slow_motion_inputs", _slow_motion_inputs),
    ("similarity", _similarity),
)
