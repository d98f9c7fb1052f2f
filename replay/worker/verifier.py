"""What a worker does with submissions that wait: leases them, re-simulates, judges, settles."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from gateway.index.board_index import Index
from gateway.ledger.judgement import reveals
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease, StoredSubmission
from gateway.ledger.submissions import work
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REVEALS, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.builds import BuildRegistry
from gateway.settlement.settle import Decision, settle
from policies.errors import RecordingLost, RecordingsUnavailable, ScoregateError
from policies.loader import Board, Simulator
from policies.replaying import BuildStatus
from policies.vocabulary import Finding, Reason, SimulatorKind, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.simulators.line_simulators import START_WALL_MS
from replay.verify import verify
from replay.worker.evidence import EvidenceCollector, RecordingEvidence
from replay.worker.examination import examine
from replay.worker.failure_isolation import isolate_failures
from replay.worker.verification_lottery import VerificationLottery
from validators.judge import judge_verdict

SETTLE_EVERY_S: Final = 0.2
"""Verdicts of one job are settled together, but none waits longer than this for those that follow, as far as can be known.

A replay is taken to last as long as the one before it of its simulator: where that would be too long, what was decided is
settled first. It may last longer: then a verdict waits for one replay, `wall_ms` of its budget at most.
"""

_log = logger()


class Verifier:
    """Turns waiting submissions into settled ones."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: Ledger,
        index: Index,
        simulators: Simulators,
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
    ) -> None:
        self._settings = settings
        self._boards = boards
        self._ledger = ledger
        self._index = index
        self._simulators = simulators
        self._recordings = recordings
        self._collector = EvidenceCollector(ledger, recordings)
        self._clock = clock
        self._builds = BuildRegistry(ledger)
        self._lottery = VerificationLottery(boards, ledger, self._builds, self._collector, clock=clock)
        self._replay_s: dict[str, float] = {}

    async def verify_all(self, submission_ids: Sequence[str]) -> int:
        """How many of the submissions were judged here; the others are settled or in another worker's hands.

        Raises LedgerUnavailable; what was not settled by then comes again when its lease has ended.
        """
        await self._builds.refresh_if_old()
        lease_ms = (self._settings.lease_s + longest_s(self._boards) * len(submission_ids)) * 1000
        leases = await self._lease(submission_ids, lease_ms)
        reach(Point.AFTER_LEASE)
        spared = await self._lottery.spared([each for each in leases if not each.submission.unreadable])
        unsettled: list[tuple[str, Decision]] = list(spared.values())
        judged = await self._ask([each for each in leases if each.submission.submission_id not in spared])
        examined = [each for each in judged if not self._is_hopeless(each)]
        await self._judge(judged, await self._collector.collect(self._boards, examined), unsettled)
        return len(leases)

    async def _lease(self, submission_ids: Sequence[str], lease_ms: int) -> list[Lease]:
        """The leases of a job; where a row cannot be read, of each by itself: that one is left, and told."""

        async def leased(some: Sequence[str]) -> list[Lease]:
            return await self._ledger.write(
                work.lease_all(some, boards=self._boards, now_ms=self._clock(), lease_ms=lease_ms)
            )

        found = await isolate_failures(leased, submission_ids, str)
        return [lease for each in found for lease in each]

    async def _judge(
        self,
        leases: Sequence[Lease],
        evidence: dict[str, RecordingEvidence],
        unsettled: Sequence[tuple[str, Decision]],
    ) -> None:
        """Decides on each and settles all, what is unsettled already first; each evidence is let go once it was needed."""
        waiting, since = list(unsettled), time.monotonic()
        for lease in leases:
            lasts_s = self._replay_s.get(lease.submission.simulator, SETTLE_EVERY_S)
            if waiting and time.monotonic() - since + lasts_s > SETTLE_EVERY_S:
                await self._settle(waiting)
                waiting = []
            decision = await self._decided(
                lease, evidence.pop(lease.submission.submission_id, RecordingEvidence())
            )
            if decision:
                since = since if waiting else time.monotonic()
                waiting.append((lease.submission.board, decision))
            reach(Point.AFTER_VERDICT)
        await self._settle(waiting)

    async def _ask(self, leases: Sequence[Lease]) -> list[Lease]:
        """Those that can be judged now; the recordings of which only the digest has come are asked for.

        One of which the ledger had the recording, and has it no more, can be judged: it is held for that.
        """
        asked = [each for each in leases if each.is_unrevealed and not self._is_held(each)]
        lost: frozenset[str] = frozenset()
        if asked:
            lost = await self._ledger.write(reveals.ask(asked, now_ms=self._clock()))
            for lease in [each for each in asked if each.submission.submission_id not in lost]:
                REVEALS.labels(lease.submission.board, "asked").inc()
        return [each for each in leases if each not in asked or each.submission.submission_id in lost]

    def _is_held(self, lease: Lease) -> bool:
        """Whether a submission waits for a moderator, whatever its recording says."""
        found = lease.submission
        status = self._builds.status_of(self._boards[found.board], found.build)
        return self._is_hopeless(lease) or status is BuildStatus.BLOCKED

    def _is_hopeless(self, lease: Lease) -> bool:
        """Whether we cannot judge a submission, and are not to try."""
        return lease.attempt > self._settings.verify_attempts or bool(lease.submission.unreadable)

    async def _settle(self, decisions: Sequence[tuple[str, Decision]]) -> None:
        by_board: dict[str, list[Decision]] = defaultdict(list)
        for board, decision in decisions:
            by_board[board].append(decision)
        for board, group in by_board.items():
            # What makes us fail is left: it comes again, and in the end is held.
            settling = partial(settle, self._ledger, self._index, self._boards[board])
            await isolate_failures(settling, group, attrgetter("submission_id"))

    async def _decided(self, lease: Lease, evidence: RecordingEvidence) -> Decision | None:
        """What is decided; None too where one run makes us fail: it comes again alone, and in the end is held."""
        try:
            return await self._decide(lease, evidence)
        except ScoregateError:
            raise  # the ledger or the sandbox is away: that is the whole job's matter
        except Exception as error:  # noqa: BLE001 - the others of its job have done nothing
            report(FaultPlace.WORKER, error, submission=lease.submission.submission_id)
            return None

    async def _decide(self, lease: Lease, evidence: RecordingEvidence) -> Decision | None:
        """What is decided; None where the recording cannot be had now: the submission comes again."""
        found, board = lease.submission, self._boards[lease.submission.board]
        if held := self._unplayed(lease, board):
            return held
        try:
            if lease.recording and evidence.recording is None:
                await self._recordings.load(lease.recording)
                return None  # it was away as it was to be examined, and nothing is judged unexamined
            evidence = await self._collector.with_compared(board.policy, evidence)
        except RecordingsUnavailable as error:
            _log.warning(Event.DUTY_FAILED, duty="verify", submission=found.submission_id, error=str(error))
            return None
        except RecordingLost:
            return self._decision(lease, State.HELD, Reason.RECORDING_LOST, {})
        verdict = self._verdict(board, found, evidence.recording)
        await self._builds.refresh_if_old()  # the build may have been blocked while we played it
        status = self._builds.status_of(board, found.build)
        findings = examine(board, lease, evidence)
        judgement = judge_verdict(verdict, (*found.findings, *findings), build=status)
        _tell(found, verdict)
        detail = _event_detail(verdict, lease, findings) | {"build_status": status.value}
        return self._decision(lease, judgement.state, judgement.reason, detail)

    def _unplayed(self, lease: Lease, board: Board) -> Decision | None:
        """The decision on what is not to be played, or cannot be, since its recording was here and is gone."""
        if lease.attempt > self._settings.verify_attempts:
            return self._decision(lease, State.HELD, Reason.ATTEMPTS_EXHAUSTED, {})
        if unreadable := lease.submission.unreadable:
            return self._decision(lease, State.HELD, Reason.RECORD_UNREADABLE, {"unreadable": unreadable})
        status = self._builds.status_of(board, lease.submission.build)
        if status is BuildStatus.BLOCKED:
            return self._decision(lease, State.HELD, Reason.BUILD_BLOCKED, {"build_status": status.value})
        return self._decision(lease, State.HELD, Reason.RECORDING_LOST, {}) if lease.is_unrevealed else None

    def _decision(self, lease: Lease, state: State, reason: Reason, detail: Mapping[str, Any]) -> Decision:
        """The decision; of what counts already, anything but a clean verdict takes it off the board."""
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

    def _verdict(self, board: Board, found: StoredSubmission, recording: bytes | None) -> Verdict:
        replay, simulator = board.policy.replay, _simulator_of(board, found.build, found.simulator)
        if replay is None or simulator is None:
            engine = self._simulators.engine_of(replay.simulator) if replay else ""
            return Verdict(VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_MISSING, found.simulator, engine)
        began = time.monotonic()
        try:
            return verify(found.claim, recording, found.seed, replay, simulator, self._simulators)
        finally:
            self._replay_s[found.simulator] = time.monotonic() - began


def _tell(found: StoredSubmission, verdict: Verdict) -> None:
    """Logs the verdict, and the cause where there is none to be had, which is a fault of ours or the game's."""
    _log.info(Event.VERDICT, submission=found.submission_id, verdict=verdict.kind, reason=verdict.reason)
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        _log.warning(
            Event.SIMULATOR_FAILED,
            board=found.board,
            build=found.build,
            submission=found.submission_id,
            simulator=verdict.simulator,
            reason=verdict.reason,
            detail=dict(verdict.detail),
            said=verdict.said,
        )


def longest_s(boards: Mapping[str, Board]) -> int:
    """The most that one re-simulation may take on any board, in whole seconds, with the start of a program for it."""
    replays = [board.policy.replay for board in boards.values() if board.policy.replay]
    longest_ms = [
        each.budget.wall_ms + (0 if each.simulator is SimulatorKind.WASM else START_WALL_MS)
        for each in replays
    ]
    return -(-max(longest_ms, default=0) // 1000)


def _simulator_of(board: Board, build: str, digest: str) -> Simulator | None:
    """The installed simulator of the ticket's build, if it is the very one the ticket was issued for."""
    simulator = board.simulators.get(build)
    return simulator if simulator and simulator.digest == digest else None


def _event_detail(verdict: Verdict, lease: Lease, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "verdict": verdict.kind.value,
        "verdict_reason": verdict.reason.value,
        "simulator": verdict.simulator,
        "engine": verdict.engine,
        "first_divergent_tick": verdict.first_divergent_tick,
        "divergence": verdict.divergence and verdict.divergence.as_dict(),
        "simulated": dict(verdict.simulated),
        "attempt": lease.attempt,
        "findings": [each.as_dict() for each in findings],
        **({"said": verdict.said} if verdict.said else {}),
        **verdict.detail,
    }
