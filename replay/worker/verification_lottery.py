"""Which of the submissions that wait are settled without a replay, on boards whose policy leaves that to chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from gateway.ledger.judgement import prospects
from gateway.ledger.judgement.bands import BandedRecording, put_and_find
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease
from gateway.runtime.clock import Clock
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.settle import Decision
from policies.loader import Board
from policies.replaying import BuildStatus
from policies.vocabulary import Mode, Reason, State
from replay.worker.evidence import EvidenceCollector
from replay.worker.failure_isolation import isolate_failures, submission_id_of
from validators.verification_priority import PromotionImpact, must_verify


class VerificationLottery:
    """Draws, for what need not be verified, whether it is. What was begun before is never drawn for again."""

    def __init__(
        self,
        boards: Mapping[str, Board],
        ledger: Ledger,
        builds: BuildRegistry,
        collector: EvidenceCollector,
        *,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self._boards = boards
        self._ledger = ledger
        self._builds = builds
        self._collector = collector
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    async def spared(self, leases: Sequence[Lease]) -> dict[str, tuple[str, Decision]]:
        """The boards and decisions, by submission, that need no replay. Fails closed: LedgerUnavailable, and nothing is decided.

        One that makes us fail is not spared, and the others are as they would be without it.
        """
        found = await isolate_failures(self._spared, leases, submission_id_of)
        return {name: decided for each in found for name, decided in each.items()}

    async def _spared(self, leases: Sequence[Lease]) -> dict[str, tuple[str, Decision]]:
        spared, counting = {}, []
        for lease in filter(self._may_be_spared, leases):
            found = lease.submission
            board = self._boards[found.board]
            verification = board.policy.verification
            asking = prospects.prospect(board.ranking, found, verification.top)
            prospect = await self._ledger.read(asking)
            if must_verify(prospect, allowed_gain=verification.beats_best_by):
                continue
            drawn = self._chance.random()
            if drawn >= verification.share:
                decision = self._decision(lease, prospect, drawn, verification.share)
                spared[found.submission_id] = (found.board, decision)
                counting += [lease] if prospect.counts else []
        reused = await self._reused(counting)
        return {name: decided for name, decided in spared.items() if name not in reused}

    async def _reused(self, leases: Sequence[Lease]) -> set[str]:
        """Those that have the very recording of another on the board, told by its digest: a theft is not left to chance.

        The others can be found from now on, by all their bands where the recording has come, else by its digest.
        Nothing else of them is examined.
        """
        banded = [await self._banded(each) for each in leases]
        if not any(each.bands for each in banded):
            return set()
        candidates = await self._ledger.write(put_and_find(banded))
        modes = {name: board.policy.validators.recording_reuse for name, board in self._boards.items()}
        return {
            found.submission_id
            for found, others in zip([each.submission for each in leases], candidates, strict=True)
            if modes[found.board] is not Mode.OFF
            and any(each.digest == found.recording_digest for each in others)
        }

    async def _banded(self, lease: Lease) -> BandedRecording:
        found, policy = lease.submission, self._boards[lease.submission.board].policy
        bands = await self._collector.bands_of(lease, policy)
        return BandedRecording(found.board, found.seq, bands, found.player)

    def _may_be_spared(self, lease: Lease) -> bool:
        found = lease.submission
        board = self._boards[found.board]
        return (
            board.policy.verification.share < 1
            and found.state is State.PENDING
            and lease.attempt == 1
            and lease.submission.recording_digest is not None
            and not prospects.is_flagged(found)
            and self._builds.status_of(board, found.build) is BuildStatus.ALLOW
        )

    def _decision(self, lease: Lease, prospect: PromotionImpact, drawn: float, share: float) -> Decision:
        """It counts if it changes a standing. What was drawn stands in the event, for whoever doubts the draw."""
        counts = prospect.counts
        return Decision(
            lease.submission.submission_id,
            State.PROMOTED if counts else State.SUPERSEDED,
            "budget",
            Reason.SAMPLED if counts else Reason.NOT_VERIFIED,
            self._clock(),
            frozenset({State.PENDING}),
            lease.attempt,
            {"drawn": drawn, "share": share, "prospect": prospect._asdict()},
        )
