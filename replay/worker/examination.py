"""What is looked at once a recording was played again: findings beside the verdict, weighed as the board says."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.ledger.records import Lease
from policies.fields import Order
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Expected, Finding, Reason
from validators.judge import weighed


def examine(board: Board, lease: Lease) -> tuple[Finding, ...]:
    """Every finding that only a worker can make."""
    return weighed("recording_reuse", _reuse(board.policy, lease), board.policy, digest=board.digest)


def _reuse(policy: Policy, lease: Lease) -> Iterator[Finding]:
    """A finding for a recording that was sent before, unless it is worth nothing.

    A run that ends before its first checkpoint has nothing of its seed in it: two players who give up at once have
    the same recording, and neither stole it.
    """
    least = policy.score.maximum if policy.order is Order.ASCENDING else policy.score.minimum
    if lease.is_recording_reused and lease.submission.claim.score != least:
        yield Finding(Reason.RECORDING_REUSED, 1, Expected(at_most=0, unit="submissions with this recording"))
