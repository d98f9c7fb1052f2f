"""What is looked at once a recording was played again: findings beside the verdict, weighed as the board says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from gateway.ledger.records import Lease
from policies.fields import SortOrder
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics import similarity as forensic_similarity
from replay.forensics import slow_motion, timing
from replay.worker.evidence import RecordingEvidence
from validators.judge import weighed


def examine(board: Board, lease: Lease, evidence: RecordingEvidence) -> tuple[Finding, ...]:
    """Every finding that only a worker can make. A check whose mode is `off` does not run: it is a generator."""
    return tuple(
        chain.from_iterable(
            weighed(name, check(board.policy, lease, evidence), board.policy, digest=board.digest)
            for name, check in _CHECKS
        )
    )


def _reuse(policy: Policy, lease: Lease, evidence: RecordingEvidence) -> Iterator[Finding]:
    """A finding for a recording that was sent before, unless it is worth nothing.

    A run that ends before its first checkpoint has nothing of its seed in it: two players who give up at once have
    the same recording, and neither stole it.
    """
    least = policy.score.maximum if policy.order is SortOrder.ASCENDING else policy.score.minimum
    if evidence.same and lease.submission.claim.score != least:
        expected = Expected(at_most=0, unit="submissions with this recording")
        finding = Finding(Reason.RECORDING_REUSED, len(evidence.same), expected, others=evidence.same)
        yield _with_order(finding, evidence)


def _timing(policy: Policy, _lease: Lease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.inputs:
        yield from timing.timing(evidence.inputs, policy.ticks_per_second, policy.forensics)


def _input_rate(policy: Policy, _lease: Lease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.inputs:
        yield from slow_motion.input_rate(evidence.inputs, policy.ticks_per_second, policy.forensics)


def _slow_motion_inputs(policy: Policy, lease: Lease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.inputs:
        elapsed_s = (lease.submission.received_at_ms - lease.submission.issued_at_ms) / 1000
        yield from slow_motion.slow_motion_inputs(
            evidence.inputs, policy.ticks_per_second, elapsed_s, policy.forensics
        )


def _similarity(policy: Policy, _lease: Lease, evidence: RecordingEvidence) -> Iterator[Finding]:
    if evidence.comparable:
        for finding in forensic_similarity.similarity(
            evidence.comparable, evidence.compared, policy.forensics
        ):
            yield _with_order(finding, evidence)


def _with_order(finding: Finding, evidence: RecordingEvidence) -> Finding:
    """The finding with how many of the others were received before this one: with 0 it is the first of them all.

    What is looked at later is found like what was looked at before, whichever of the two came first.
    """
    earlier = sum(each in evidence.earlier for each in finding.others)
    return replace(finding, detail={**finding.detail, "received_before": earlier})


_CHECKS: Final[tuple[tuple[str, Callable[[Policy, Lease, RecordingEvidence], Iterable[Finding]]], ...]] = (
    ("recording_reuse", _reuse),
    ("timing", _timing),
    ("input_rate", _input_rate),
    ("slow_motion_inputs", _slow_motion_inputs),
    ("similarity", _similarity),
)
