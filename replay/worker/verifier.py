"""What a worker does with submissions that wait: leases them, re-simulates, judges, settles."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.boards.index import Index
from gateway.clock import Clock, wall_clock
from gateway.failpoints import Point, reach
from gateway.ledger import work
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease, StoredSubmission
from gateway.recordings.recordings import Recordings
from gateway.settings import Settings
from gateway.settlement import Decision, settle
from gateway.telemetry import Event, logger
from policies.errors import RecordingLost, RecordingsUnavailable
from policies.loader import Board, Simulator
from policies.vocabulary import Finding, Reason, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.verify import verify
from replay.worker.examination import examine
from validators.judge import judge_verdict

SETTLE_EVERY_S: Final = 0.2
"""Verdicts of one job are settled together, but none waits longer than this for the next one."""

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
        self._clock = clock

    async def verify_all(self, submission_ids: Sequence[str]) -> int:
        """How many of the submissions were judged here; the others are settled or in another worker's hands.

        Raises LedgerUnavailable; what was not settled by then comes again when its lease has ended.
        """
        lease_ms = (self._settings.lease_s + self._longest_s() * len(submission_ids)) * 1000
        leases = await self._ledger.write(
            work.lease_all(submission_ids, now_ms=self._clock(), lease_ms=lease_ms)
        )
        reach(Point.AFTER_LEASE)
        ours = [lease for lease in leases if lease.submission.board in self._boards]
        unsettled: list[tuple[str, Decision]] = []
        settled_at = time.monotonic()
        for lease in ours:
            decision = await self._decide(lease)
            if decision:
                unsettled.append((lease.submission.board, decision))
            reach(Point.AFTER_VERDICT)
            if time.monotonic() - settled_at > SETTLE_EVERY_S:
                await self._settle(unsettled)
                unsettled, settled_at = [], time.monotonic()
        await self._settle(unsettled)
        return len(ours)

    async def _settle(self, decisions: Sequence[tuple[str, Decision]]) -> None:
        by_board: dict[str, list[Decision]] = defaultdict(list)
        for board, decision in decisions:
            by_board[board].append(decision)
        for board, group in by_board.items():
            await settle(self._ledger, self._index, self._boards[board], group)

    async def _decide(self, lease: Lease) -> Decision | None:
        """What is decided; None where the recording cannot be had now: the submission comes again."""
        found = lease.submission
        if lease.attempt > self._settings.verify_attempts:
            return self._decision(lease, State.HELD, Reason.ATTEMPTS_EXHAUSTED, {})
        board = self._boards[found.board]
        try:
            recording = await self._recordings.load(lease.recording) if lease.recording else None
        except RecordingsUnavailable as error:
            _log.warning(Event.DUTY_FAILED, duty="verify", submission=found.submission_id, error=str(error))
            return None
        except RecordingLost:
            return self._decision(lease, State.HELD, Reason.RECORDING_LOST, {})
        verdict = self._verdict(board, found, recording)
        findings = examine(board, lease)
        judgement = judge_verdict(verdict, (*found.findings, *findings))
        _log.info(Event.VERDICT, submission=found.submission_id, verdict=verdict.kind, reason=verdict.reason)
        evidence = _evidence(verdict, lease, findings)
        return self._decision(lease, judgement.state, judgement.reason, evidence)

    def _decision(self, lease: Lease, state: State, reason: Reason, detail: Mapping[str, Any]) -> Decision:
        return Decision(
            lease.submission.submission_id,
            state,
            "replay",
            reason,
            self._clock(),
            frozenset({State.PENDING}),
            lease.attempt,
            detail,
        )

    def _verdict(self, board: Board, found: StoredSubmission, recording: bytes | None) -> Verdict:
        replay, simulator = board.policy.replay, _simulator_of(board, found.build, found.simulator)
        if replay is None or simulator is None:
            engine = self._simulators.engine
            return Verdict(VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_MISSING, found.simulator, engine)
        return verify(found.claim, recording, found.seed, replay, simulator, self._simulators)

    def _longest_s(self) -> int:
        """The most that one re-simulation may take on any board, in whole seconds."""
        budgets = [
            board.policy.replay.budget.wall_ms for board in self._boards.values() if board.policy.replay
        ]
        return -(-max(budgets, default=0) // 1000)


def _simulator_of(board: Board, build: str, digest: str) -> Simulator | None:
    """The installed simulator of the ticket's build, if it is the very one the ticket was issued for."""
    simulator = board.simulators.get(build)
    return simulator if simulator and simulator.digest == digest else None


def _evidence(verdict: Verdict, lease: Lease, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "verdict": verdict.kind.value,
        "verdict_reason": verdict.reason.value,
        "simulator": verdict.simulator,
        "engine": verdict.engine,
        "first_divergent_tick": verdict.first_divergent_tick,
        "divergence": verdict.divergence and verdict.divergence.as_dict(),
        "attempt": lease.attempt,
        "findings": [each.as_dict() for each in findings],
        **verdict.detail,
    }
