"""What a worker does with runs that were drawn for an audit: simulates each twice more, as if it had never seen it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple

from gateway.ledger.judgement import audits
from gateway.ledger.judgement.builds import BuildChange
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import AUDITS, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import RecordingLost, RecordingsUnavailable, ScoregateError
from policies.loader import Board, Simulator
from policies.replaying import BuildStatus, Replay
from replay.fingerprint import Fingerprint, differences, fingerprint_of
from replay.recording import RecordingError
from replay.simulators import Simulation, Simulators
from replay.verify import read_recording, request_of
from replay.worker.verifier import longest_s

RUNS = 2
"""Simulations of an audit, each in a process that has done nothing before; with the verdict's own they are three."""

_log = logger()


class AuditOutcome(StrEnum):
    """What an audit of one run came to. `unable`: what it takes was not there, or the simulation failed."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNABLE = "unable"


class AuditedRun(NamedTuple):
    """A run with what its audit came to, and in what its simulations differ."""

    lease: Lease
    outcome: AuditOutcome
    differs: tuple[str, ...] = ()


class Auditor:
    """Finds simulators that disagree with themselves. It convicts nobody: it takes a build's right to promote."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: Ledger,
        fresh: Callable[[], AbstractContextManager[Simulators]],
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
    ) -> None:
        """`fresh` gives simulators whose processes start with the first question."""
        self._settings = settings
        self._boards = boards
        self._ledger = ledger
        self._fresh = fresh
        self._recordings = recordings
        self._clock = clock

    async def audit_all(self, submission_ids: Sequence[str]) -> int:
        """How many of the submissions were audited here; the others are done or in another worker's hands.

        Raises LedgerUnavailable; what was not written down by then is audited again when its lease has ended.
        """
        lease_ms = (self._settings.lease_s + RUNS * longest_s(self._boards) * len(submission_ids)) * 1000
        now_ms = self._clock()
        leasing = audits.lease(submission_ids, boards=self._boards, now_ms=now_ms, lease_ms=lease_ms)
        audited = [await self._tried(each) for each in await self._ledger.write(leasing)]
        await self._report([each for each in audited if each is not None])
        return len(audited)

    async def _tried(self, lease: Lease) -> AuditedRun | None:
        """What an audit came to; `unable` where one run makes us fail, which is none of the others' matter."""
        try:
            return await self._audited(lease)
        except ScoregateError:
            raise  # the ledger or the sandbox is away: that is the whole job's matter
        except Exception as error:  # noqa: BLE001 - the others of its job have done nothing
            report(FaultPlace.WORKER, error, submission=lease.submission.submission_id)
            return AuditedRun(lease, AuditOutcome.UNABLE)

    async def _audited(self, lease: Lease) -> AuditedRun | None:
        """What an audit came to; None where the recording cannot be had now: it comes again."""
        board, found = self._boards[lease.submission.board], lease.submission
        simulator, replay = board.simulators.get(found.build), board.policy.replay
        is_spent = lease.attempt > 2 * self._settings.verify_attempts
        if is_spent or found.unreadable or not lease.recording:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        if not replay or not simulator or simulator.digest != found.simulator:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        try:
            recording = await self._recordings.load(lease.recording)
        except RecordingsUnavailable:
            return None
        except RecordingLost:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        runs = [self._fingerprint(lease, recording, replay, simulator) for _ in range(RUNS)]
        known = [each for each in runs if each is not None]
        if len(known) < RUNS:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        recorded = await self._ledger.read(audits.fingerprint_in(found.submission_id))
        differs = differences([*([recorded] if recorded else []), *known])
        outcome = AuditOutcome.DISAGREES if differs else AuditOutcome.AGREES
        return AuditedRun(lease, outcome, tuple(differs))

    def _fingerprint(
        self, lease: Lease, recording: bytes, replay: Replay, simulator: Simulator
    ) -> Fingerprint | None:
        """What one simulation comes to in a process of its own; None if it failed."""
        found = lease.submission
        try:
            played = read_recording(recording, found.claim, replay)
        except RecordingError:
            return None
        with self._fresh() as simulators:
            outcome = simulators.simulate(request_of(recording, played, found.seed, replay, simulator))
        return fingerprint_of(outcome) if isinstance(outcome, Simulation) else None

    async def _report(self, audited: Sequence[AuditedRun]) -> None:
        """Restricts builds whose simulator disagrees, in the transaction that strikes the audits off."""
        by_build: dict[tuple[str, str], list[AuditedRun]] = defaultdict(list)
        for each in audited:
            if each.outcome is AuditOutcome.DISAGREES:
                by_build[each.lease.submission.board, each.lease.submission.build].append(each)
        changes = [
            (self._restriction(*of, some), self._boards[of[0]].policy.builds[of[1]].status)
            for of, some in by_build.items()
        ]
        seqs = [each.lease.submission.seq for each in audited]
        restricted = await self._ledger.write(audits.finish(seqs, changes))
        for each in audited:
            AUDITS.labels(each.lease.submission.board, each.outcome.value).inc()
        for (board, build), some in by_build.items():
            _log.error(
                Event.SIMULATOR_DISAGREES,
                board=board,
                build=build,
                simulator=some[0].lease.submission.simulator,
                submissions=[each.lease.submission.submission_id for each in some],
                differs=sorted({name for each in some for name in each.differs}),
                is_restricted=(board, build) in restricted,
            )

    def _restriction(self, board: str, build: str, some: Sequence[AuditedRun]) -> BuildChange:
        ids = ", ".join(each.lease.submission.submission_id for each in some)
        names = ", ".join(sorted({name for each in some for name in each.differs}))
        why = f"simulated again, these runs gave another result ({names}): {ids}"
        return BuildChange(board, build, BuildStatus.PROVISIONAL, "audit", why, self._clock())
