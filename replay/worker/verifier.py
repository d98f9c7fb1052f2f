"""Verifies waiting submissions: leases them, re-simulates, judges and settles."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_indexes import Index
from gateway.ledger.judgement import reveals
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import StoredSubmission, VerificationLease
from gateway.ledger.submissions import work
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REVEALS, Event, label_of, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.errors import RecordingLost, RecordingsUnavailable, ScoregateError
from policies.loader import Board, Policies, Simulator
from policies.replaying import BuildStatus
from policies.vocabulary import Finding, Reason, SimulatorKind, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.simulators.board_content import BoardContent
from replay.simulators.line_simulators import START_WALL_MS
from replay.verify import verify
from replay.worker.board_contents import RETRIED, BoardContents, ContentUnavailable
from replay.worker.evidence import EvidenceCollector, RecordingEvidence, parts_of
from replay.worker.examination import examine
from replay.worker.failure_isolation import isolate_failures
from replay.worker.verification_lottery import VerificationLottery
from validators.judge import judge_verdict

SETTLE_EVERY_S: Final = 0.2
"""Verdicts of a job are settled together, but none should wait longer than this for the next ones.

A replay is expected to last as long as the previous one of its simulator. If that is too long, earlier
verdicts are settled first. If it lasts longer, a verdict waits for one replay, at most its budget's
`wall_ms`.
"""

_log = logger()


class Verifier:
    """Settles waiting submissions."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        ledger: Ledger,
        index: Index,
        simulators: Simulators,
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._ledger = ledger
        self._index = index
        self._simulators = simulators
        self._recordings = recordings
        self._collector = EvidenceCollector(ledger, recordings)
        self._contents = BoardContents(recordings)
        self._clock = clock
        self._builds = BuildRegistry(ledger)
        self._lottery = VerificationLottery(ledger, self._builds, self._collector, clock=clock)
        self._replay_s: dict[str, float] = {}

    async def verify_all(self, submission_ids: Sequence[str]) -> int:
        """Return how many of the submissions were judged here; the rest are settled or leased elsewhere.

        Raises LedgerUnavailable; what was not settled by then comes again when its lease has ended.
        """
        await self._builds.refresh_if_old()
        lease_ms = (self._settings.lease_s + longest_s(self._catalogue.policies) * len(submission_ids)) * 1000
        leases = await self._lease(submission_ids, lease_ms)
        reach(Point.AFTER_LEASE)
        boards = await self._catalogue.boards(lease.submission.board for lease in leases)
        leases = [lease for lease in leases if lease.submission.board in boards]
        readable = [lease for lease in leases if not lease.submission.unreadable]
        spared = await self._lottery.spared(boards, readable)
        unsettled: list[tuple[str, Decision]] = list(spared.values())
        unspared = [lease for lease in leases if lease.submission.submission_id not in spared]
        for part in parts_of(boards, await self._ask(boards, unspared)):
            examined = [lease for lease in part if not self._is_hopeless(lease)]
            await self._judge(boards, part, await self._collector.collect(boards, examined), unsettled)
            unsettled = []
        return len(leases)

    async def _lease(self, submission_ids: Sequence[str], lease_ms: int) -> list[VerificationLease]:
        """Return the leases of a job.

        If a row is unreadable, lease each alone; that one is left and reported.
        """

        async def leased(some: Sequence[str]) -> list[VerificationLease]:
            return await self._ledger.write(
                work.lease_all(some, boards=self._catalogue, now_ms=self._clock(), lease_ms=lease_ms)
            )

        parts = await isolate_failures(leased, submission_ids, str)
        return [lease for part in parts for lease in part]

    async def _judge(
        self,
        boards: Mapping[str, Board],
        leases: Sequence[VerificationLease],
        evidence: dict[str, RecordingEvidence],
        unsettled: Sequence[tuple[str, Decision]],
    ) -> None:
        """Decide on each submission and settle all, the unsettled decisions first."""
        waiting, since = list(unsettled), time.monotonic()
        for lease in leases:
            lasts_s = self._replay_s.get(lease.submission.simulator, SETTLE_EVERY_S)
            if waiting and time.monotonic() - since + lasts_s > SETTLE_EVERY_S:
                await self._settle(boards, waiting)
                waiting = []
            of_lease = evidence.pop(lease.submission.submission_id, RecordingEvidence())
            decision = await self._decided(boards[lease.submission.board], lease, of_lease)
            if decision:
                since = since if waiting else time.monotonic()
                waiting.append((lease.submission.board, decision))
            reach(Point.AFTER_VERDICT)
        await self._settle(boards, waiting)

    async def _ask(
        self, boards: Mapping[str, Board], leases: Sequence[VerificationLease]
    ) -> list[VerificationLease]:
        """Return the leases that can be judged now, and request the recordings of which only a digest came.

        If the ledger lost a recording, its submission can be judged: it is held for that.
        """
        unrevealed = [lease for lease in leases if lease.is_unrevealed and not self._is_held(boards, lease)]
        lost: frozenset[str] = frozenset()
        if unrevealed:
            lost = await self._ledger.write(reveals.ask(unrevealed, now_ms=self._clock()))
            for lease in unrevealed:
                if lease.submission.submission_id not in lost:
                    REVEALS.labels(label_of(lease.submission.board), "asked").inc()
        return [
            lease for lease in leases if lease not in unrevealed or lease.submission.submission_id in lost
        ]

    def _is_held(self, boards: Mapping[str, Board], lease: VerificationLease) -> bool:
        """Return whether a submission waits for a moderator, whatever its recording says."""
        submission = lease.submission
        status = self._builds.status_of(boards[submission.board], submission.build)
        return self._is_hopeless(lease) or status is BuildStatus.BLOCKED

    def _is_hopeless(self, lease: VerificationLease) -> bool:
        """Return whether we cannot judge a submission, and should not try."""
        return lease.attempt > self._settings.verify_attempts or bool(lease.submission.unreadable)

    async def _settle(self, boards: Mapping[str, Board], decisions: Sequence[tuple[str, Decision]]) -> None:
        by_board: dict[str, list[Decision]] = defaultdict(list)
        for board, decision in decisions:
            by_board[board].append(decision)
        for board, group in by_board.items():
            # A submission that makes us fail is left: it comes again, and in the end is held.
            settling = partial(settle, self._ledger, self._index, boards[board])
            await isolate_failures(settling, group, attrgetter("submission_id"))

    async def _decided(
        self, board: Board, lease: VerificationLease, evidence: RecordingEvidence
    ) -> Decision | None:
        """Return the decision; None if this run makes us fail: it comes again alone, and is finally held."""
        try:
            return await self._decide(board, lease, evidence)
        except ScoregateError:
            raise  # the ledger or the sandbox is unavailable, which ends the whole job
        except Exception as error:  # noqa: BLE001 - it must not fail the other runs of its job
            report(FaultPlace.WORKER, error, submission=lease.submission.submission_id)
            return None

    async def _decide(
        self, board: Board, lease: VerificationLease, evidence: RecordingEvidence
    ) -> Decision | None:
        """Return the decision; None if the recording is unavailable now, so that the run comes again."""
        submission = lease.submission
        if held := self._unplayed(lease, board):
            return held
        try:
            if lease.recording and evidence.recording is None:
                await self._recordings.load(lease.recording)
                return None  # it was unavailable for examination, and nothing is judged unexamined
            evidence = await self._collector.with_compared(board.policy, evidence)
            content = await self._contents.of(board, submission.board_content)
        except RecordingsUnavailable as error:
            _log.warning(
                Event.DUTY_FAILED, duty="verify", submission=submission.submission_id, error=str(error)
            )
            return None
        except RecordingLost:
            return self._decision(lease, State.HELD, Reason.RECORDING_LOST, {})
        except ContentUnavailable as fault:
            return self._without_content(lease, fault.reason)
        verdict = self._verdict(board, submission, evidence, content)
        await self._builds.refresh_if_old()  # the build may have been blocked while we played it
        status = self._builds.status_of(board, submission.build)
        findings = examine(board, lease, evidence)
        judgement = judge_verdict(verdict, (*submission.findings, *findings), build=status)
        _tell(submission, verdict)
        detail = _event_detail(verdict, lease, findings) | {"build_status": status.value}
        return self._decision(lease, judgement.state, judgement.reason, detail)

    def _unplayed(self, lease: VerificationLease, board: Board) -> Decision | None:
        """Return the decision on a submission that must not or cannot be played."""
        if lease.attempt > self._settings.verify_attempts:
            return self._decision(lease, State.HELD, Reason.ATTEMPTS_EXHAUSTED, {})
        if unreadable := lease.submission.unreadable:
            return self._decision(lease, State.HELD, Reason.RECORD_UNREADABLE, {"unreadable": unreadable})
        status = self._builds.status_of(board, lease.submission.build)
        if status is BuildStatus.BLOCKED:
            return self._decision(lease, State.HELD, Reason.BUILD_BLOCKED, {"build_status": status.value})
        return self._decision(lease, State.HELD, Reason.RECORDING_LOST, {}) if lease.is_unrevealed else None

    def _without_content(self, lease: VerificationLease, reason: Reason) -> Decision | None:
        """Return the decision on a run that cannot be played without its board's content; None to retry."""
        _log.warning(
            Event.DUTY_FAILED, duty="verify", submission=lease.submission.submission_id, error=reason
        )
        if reason in RETRIED and lease.attempt < self._settings.verify_attempts:
            return None
        return self._decision(lease, State.HELD, reason, {"verdict": VerdictKind.INCONCLUSIVE.value})

    def _decision(
        self, lease: VerificationLease, state: State, reason: Reason, detail: Mapping[str, Any]
    ) -> Decision:
        """Return the decision. A run that counts already is revoked by anything but a clean verdict."""
        before = lease.submission.state
        if before is State.PROMOTED and state is not State.PROMOTED:
            state = State.REVOKED
        return Decision(
            lease.submission.submission_id,
            state,
            "replay",
            reason,
            self._clock(),
            frozenset({before}),
            lease.attempt,
            detail,
        )

    def _verdict(
        self, board: Board, submission: StoredSubmission, evidence: RecordingEvidence, content: BoardContent
    ) -> Verdict:
        replay, simulator = board.policy.replay, _simulator_of(board, submission.build, submission.simulator)
        if replay is None or simulator is None:
            engine = self._simulators.engine_of(replay.simulator) if replay else ""
            return Verdict(VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_MISSING, submission.simulator, engine)
        began = time.monotonic()
        try:
            run = submission.claim, evidence.recording, submission.seed
            return verify(*run, replay, simulator, self._simulators, content, evidence.played)
        finally:
            self._replay_s[submission.simulator] = time.monotonic() - began


def _tell(submission: StoredSubmission, verdict: Verdict) -> None:
    """Log the verdict, and the cause if it is inconclusive, which is a fault of ours or the game's."""
    _log.info(Event.VERDICT, submission=submission.submission_id, verdict=verdict.kind, reason=verdict.reason)
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        _log.warning(
            Event.SIMULATOR_FAILED,
            board=submission.board,
            build=submission.build,
            submission=submission.submission_id,
            simulator=verdict.simulator,
            reason=verdict.reason,
            detail=dict(verdict.detail),
            said=verdict.said,
        )


def longest_s(policies: Policies) -> int:
    """Return the longest re-simulation of any board, in whole seconds, with the start of its program."""
    replays = [entry.policy.replay for entry in policies.by_name.values() if entry.policy.replay]
    longest_ms = [
        replay.budget.wall_ms + (0 if replay.simulator is SimulatorKind.WASM else START_WALL_MS)
        for replay in replays
    ]
    return -(-max(longest_ms, default=0) // 1000)


def _simulator_of(board: Board, build: str, digest: str) -> Simulator | None:
    """Return the installed simulator of the ticket's build, if the ticket was issued for it."""
    simulator = board.simulators.get(build)
    return simulator if simulator and simulator.digest == digest else None


def _event_detail(verdict: Verdict, lease: VerificationLease, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "verdict": verdict.kind.value,
        "verdict_reason": verdict.reason.value,
        "simulator": verdict.simulator,
        "engine": verdict.engine,
        "first_divergent_tick": verdict.first_divergent_tick,
        "divergence": verdict.divergence and verdict.divergence.as_dict(),
        "simulated": dict(verdict.simulated),
        "attempt": lease.attempt,
        "findings": [finding.as_dict() for finding in findings],
        **({"said": verdict.said} if verdict.said else {}),
        **verdict.detail,
    }
