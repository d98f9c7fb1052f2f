"""Audits runs that were drawn for it: simulates each twice more, as if it had never been seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.judgement import audits
from gateway.ledger.judgement.builds import BuildChange
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import VerificationLease
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import AUDITS, Event, label_of, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import RecordingLost, RecordingsUnavailable, ScoregateError
from policies.loader import Board, Simulator
from policies.replaying import BuildStatus, Replay
from replay.fingerprint import Fingerprint, differences, fingerprint_of
from replay.recording import RecordingError
from replay.simulators import Simulation, Simulators
from replay.simulators.board_content import BoardContent
from replay.verify import read_recording, request_of
from replay.worker.board_contents import BoardContents, ContentUnavailable
from replay.worker.verifier import longest_s

RUNS = 2
"""Simulations of an audit, each in a fresh process. With the verdict's own they are three."""

_log = logger()


class AuditOutcome(StrEnum):
    """The result of auditing one run. `unable`: something was missing, or the simulation failed."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNABLE = "unable"


class AuditedRun(NamedTuple):
    """A run, the result of its audit, and the names of the values in which its simulations differ."""

    lease: VerificationLease
    outcome: AuditOutcome
    differs: tuple[str, ...] = ()


class Auditor:
    """Finds simulators that disagree with themselves. It rejects no run, but restricts the build."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        ledger: Ledger,
        fresh: Callable[[], AbstractContextManager[Simulators]],
        *,
        recordings: Recordings,
        clock: Clock = wall_clock,
    ) -> None:
        """Create an auditor. `fresh` returns simulators whose processes start with the first question."""
        self._settings = settings
        self._catalogue = catalogue
        self._ledger = ledger
        self._fresh = fresh
        self._recordings = recordings
        self._contents = BoardContents(recordings)
        self._clock = clock

    async def audit_all(self, submission_ids: Sequence[str]) -> int:
        """Return how many of the submissions were audited here; the rest are done or leased elsewhere.

        Raises LedgerUnavailable; what was not recorded by then is audited again when its lease has ended.
        """
        longest = RUNS * longest_s(self._catalogue.policies) * len(submission_ids)
        lease_ms = (self._settings.lease_s + longest) * 1000
        now_ms = self._clock()
        leasing = audits.lease(submission_ids, boards=self._catalogue, now_ms=now_ms, lease_ms=lease_ms)
        leases = await self._ledger.write(leasing)
        boards = await self._catalogue.boards(lease.submission.board for lease in leases)
        audited = [
            await self._try(boards[lease.submission.board], lease)
            for lease in leases
            if lease.submission.board in boards
        ]
        await self._report(boards, [run for run in audited if run is not None])
        return len(audited)

    async def _try(self, board: Board, lease: VerificationLease) -> AuditedRun | None:
        """Return the result of an audit; `unable` if this run makes us fail, so that the others go on."""
        try:
            return await self._audit(board, lease)
        except ScoregateError:
            raise  # the ledger or the sandbox is unavailable, which ends the whole job
        except Exception as error:  # noqa: BLE001 - it must not fail the other runs of its job
            report(FaultPlace.WORKER, error, submission=lease.submission.submission_id)
            return AuditedRun(lease, AuditOutcome.UNABLE)

    async def _audit(self, board: Board, lease: VerificationLease) -> AuditedRun | None:
        """Return the result of an audit; None if the recording is unavailable now, so that it is retried."""
        submission = lease.submission
        simulator, replay = board.simulators.get(submission.build), board.policy.replay
        is_spent = lease.attempt > 2 * self._settings.verify_attempts
        if is_spent or submission.unreadable or not lease.recording:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        if not replay or not simulator or simulator.digest != submission.simulator:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        try:
            recording = await self._recordings.load(lease.recording)
            content = await self._contents.of(board, submission.board_content)
        except RecordingsUnavailable:
            return None
        except (RecordingLost, ContentUnavailable):
            return AuditedRun(lease, AuditOutcome.UNABLE)
        runs = [self._fingerprint(lease, recording, replay, simulator, content) for _ in range(RUNS)]
        fingerprints = [fingerprint for fingerprint in runs if fingerprint is not None]
        if len(fingerprints) < RUNS:
            return AuditedRun(lease, AuditOutcome.UNABLE)
        recorded = await self._ledger.read(audits.fingerprint_in(submission.submission_id))
        differs = differences([*([recorded] if recorded else []), *fingerprints])
        outcome = AuditOutcome.DISAGREES if differs else AuditOutcome.AGREES
        return AuditedRun(lease, outcome, tuple(differs))

    def _fingerprint(
        self,
        lease: VerificationLease,
        recording: bytes,
        replay: Replay,
        simulator: Simulator,
        content: BoardContent,
    ) -> Fingerprint | None:
        """Return the fingerprint of one simulation in a process of its own; None if it failed."""
        submission = lease.submission
        try:
            played = read_recording(recording, submission.claim, replay)
        except RecordingError:
            return None
        request = request_of(recording, played, submission.seed, replay, simulator, content)
        with self._fresh() as simulators:
            outcome = simulators.simulate(request)
        return fingerprint_of(outcome) if isinstance(outcome, Simulation) else None

    async def _report(self, boards: Mapping[str, Board], audited: Sequence[AuditedRun]) -> None:
        """Restrict builds whose simulator disagrees, in the transaction that deletes the audits."""
        by_build: dict[tuple[str, str], list[AuditedRun]] = defaultdict(list)
        for run in audited:
            if run.outcome is AuditOutcome.DISAGREES:
                by_build[label_of(run.lease.submission.board), run.lease.submission.build].append(run)
        changes = []
        for (name, build), runs in by_build.items():
            declared = boards[runs[0].lease.submission.board].policy.builds[build].status
            changes.append((self._restriction(name, build, runs), declared))
        seqs = [run.lease.submission.seq for run in audited]
        restricted = await self._ledger.write(audits.finish(seqs, changes))
        for run in audited:
            AUDITS.labels(label_of(run.lease.submission.board), run.outcome.value).inc()
        for (board, build), runs in by_build.items():
            _log.error(
                Event.SIMULATOR_DISAGREES,
                board=board,
                build=build,
                simulator=runs[0].lease.submission.simulator,
                submissions=[run.lease.submission.submission_id for run in runs],
                differs=sorted({name for run in runs for name in run.differs}),
                is_restricted=(board, build) in restricted,
            )

    def _restriction(self, board: str, build: str, runs: Sequence[AuditedRun]) -> BuildChange:
        ids = ", ".join(run.lease.submission.submission_id for run in runs)
        names = ", ".join(sorted({name for run in runs for name in run.differs}))
        why = f"simulated again, these runs gave another result ({names}): {ids}"
        return BuildChange(board, build, BuildStatus.PROVISIONAL, "audit", why, self._clock())
