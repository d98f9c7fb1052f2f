"""Settles waiting submissions without a replay, on boards whose policy leaves that to chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

from gateway.ledger.judgement import promotion_impact
from gateway.ledger.judgement.bands import BandedRecording, put_and_find
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import VerificationLease
from gateway.runtime.clock import Clock
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.decision_records import Decision
from policies.loader import Board
from policies.replaying import BuildStatus
from policies.vocabulary import Mode, Reason, State
from replay.worker.evidence import EvidenceCollector
from replay.worker.failure_isolation import isolate_failures, submission_id_of
from validators.verification_priority import PromotionImpact, must_verify


class VerificationLottery:
    """Draws whether a submission that need not be verified is.

    A submission that was begun before is not drawn again.
    """

    def __init__(
        self,
        ledger: Ledger,
        builds: BuildRegistry,
        collector: EvidenceCollector,
        *,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self._ledger = ledger
        self._builds = builds
        self._collector = collector
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    async def spared(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> dict[str, tuple[str, Decision]]:
        """Return the board and decision of each submission that needs no replay, by submission.

        A submission that makes us fail is not spared, and the others are decided as without it. Fails closed:
        raises LedgerUnavailable, and nothing is decided.
        """
        parts = await isolate_failures(partial(self._spared, boards), leases, submission_id_of)
        return {name: decision for part in parts for name, decision in part.items()}

    async def _spared(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> dict[str, tuple[str, Decision]]:
        spared, counting = {}, []
        for lease in leases:
            submission, board = lease.submission, boards[lease.submission.board]
            if not self._may_be_spared(board, lease):
                continue
            verification = board.policy.verification
            asking = promotion_impact.impact_of(board.ranking, submission, verification.top)
            impact = await self._ledger.read(asking)
            if must_verify(impact, allowed_gain=verification.beats_best_by):
                continue
            drawn = self._chance.random()
            if drawn >= verification.share:
                decision = self._decision(lease, impact, drawn, verification.share)
                spared[submission.submission_id] = (submission.board, decision)
                counting += [lease] if impact.counts else []
        reused = await self._reused(boards, counting)
        return {name: decision for name, decision in spared.items() if name not in reused}

    async def _reused(self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]) -> set[str]:
        """Return the submissions whose recording another one has, by its digest: theft needs no luck.

        The others can be found from now on, by all their bands if the recording has come, else by its digest.
        Nothing else of them is examined.
        """
        banded = [await self._banded(boards[lease.submission.board], lease) for lease in leases]
        if not any(entry.bands for entry in banded):
            return set()
        candidates = await self._ledger.write(put_and_find(banded))
        modes = {name: board.policy.validators.recording_reuse for name, board in boards.items()}
        return {
            lease.submission.submission_id
            for lease, others in zip(leases, candidates, strict=True)
            if modes[lease.submission.board] is not Mode.OFF
            and any(other.digest == lease.submission.recording_digest for other in others)
        }

    async def _banded(self, board: Board, lease: VerificationLease) -> BandedRecording:
        submission, policy = lease.submission, board.policy
        bands = await self._collector.bands_of(lease, policy)
        return BandedRecording(submission.board, submission.seq, bands, submission.player)

    def _may_be_spared(self, board: Board, lease: VerificationLease) -> bool:
        submission = lease.submission
        return (
            board.policy.verification.share < 1
            and submission.state is State.PENDING
            and lease.attempt == 1
            and lease.submission.recording_digest is not None
            and not promotion_impact.is_flagged(submission.findings)
            and self._builds.status_of(board, submission.build) is BuildStatus.ALLOW
        )

    def _decision(
        self, lease: VerificationLease, impact: PromotionImpact, drawn: float, share: float
    ) -> Decision:
        """Return the decision: a submission counts if it changes a standing."""
        # The drawn number is stored in the event, so that the draw can be checked.
        counts = impact.counts
        return Decision(
            lease.submission.submission_id,
            State.PROMOTED if counts else State.SUPERSEDED,
            "budget",
            Reason.SAMPLED if counts else Reason.NOT_VERIFIED,
            self._clock(),
            frozenset({State.PENDING}),
            lease.attempt,
            {"drawn": drawn, "share": share, "prospect": impact._asdict()},
        )
