"""What is looked at once a recording was played again: findings beside the verdict, weighed as the board says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from gateway.ledger.records import Lease
from policies.fields import Order
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from replay.forensics import similarity as forensic_similarity
from replay.forensics import slow_motion, timing
from replay.worker.exhibits import Exhibit
from validators.judge import weighed


def examine(board: Board, lease: Lease, exhibit: Exhibit) -> tuple[Finding, ...]:
    """Every finding that only a worker can make. A check whose mode is `off` does not run: it is a generator."""
    return tuple(
        chain.from_iterable(
            weighed(name, check(board.policy, lease, exhibit), board.policy, digest=board.digest)
            for name, check in _CHECKS
        )
    )


def _reuse(policy: Policy, lease: Lease, exhibit: Exhibit) -> Iterator[Finding]:
    """A finding for a recording that was sent before, unless it is worth nothing.

    A run that ends before its first checkpoint has nothing of its seed in it: two players who give up at once have
    the same recording, and neither stole it.
    """
    least = policy.score.maximum if policy.order is Order.ASCENDING else policy.score.minimum
    if exhibit.same and lease.submission.claim.score != least:
        expected = Expected(at_most=0, unit="submissions with this recording")
        finding = Finding(Reason.RECORDING_REUSED, len(exhibit.same), expected, others=exhibit.same)
        yield _with_order(finding, exhibit)


def _timing(policy: Policy, _lease: Lease, exhibit: Exhibit) -> Iterator[Finding]:
    if exhibit.inputs:
        yield from timing.timing(exhibit.inputs, policy.ticks_per_second, policy.forensics)


def _input_rate(policy: Policy, _lease: Lease, exhibit: Exhibit) -> Iterator[Finding]:
    if exhibit.inputs:
        yield from slow_motion.input_rate(exhibit.inputs, policy.ticks_per_second, policy.forensics)


def _slow_motion_inputs(policy: Policy, lease: Lease, exhibit: Exhibit) -> Iterator[Finding]:
    if exhibit.inputs:
        elapsed_s = (lease.submission.received_at_ms - lease.submission.issued_at_ms) / 1000
        yield from slow_motion.slow_motion_inputs(
            exhibit.inputs, policy.ticks_per_second, elapsed_s, policy.forensics
        )


def _similarity(policy: Policy, _lease: Lease, exhibit: Exhibit) -> Iterator[Finding]:
    if exhibit.play:
        for finding in forensic_similarity.similarity(exhibit.play, exhibit.alike, policy.forensics):
            yield _with_order(finding, exhibit)


def _with_order(finding: Finding, exhibit: Exhibit) -> Finding:
    """The finding with how many of the others were received before this one: with 0 it is the first of them all.

    What is looked at later is found like what was looked at before, whichever of the two came first.
    """
    earlier = sum(each in exhibit.earlier for each in finding.others)
    return replace(finding, detail={**finding.detail, "received_before": earlier})


_CHECKS: Final[tuple[tuple[str, Callable[[Policy, Lease, Exhibit], Iterable[Finding]]], ...]] = (
    ("recording_reuse", _reuse),
    ("timing", _timing),
    ("input_rate", _input_rate),
    ("slow_motion_inputs", _slow_motion_inputs),
    ("similarity", _similarity),
)
