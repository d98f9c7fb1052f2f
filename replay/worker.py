"""The RQ worker: takes submission ids, verifies each in the sandbox, and settles. The one file here with sockets.

RQ only says when to look. What is to be done, who does it, and how often it was tried stands in the ledger: a job that
is lost, doubled, forged or left behind by a crash changes no verdict.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from types import FrameType
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError, NoSuchJobError, StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from gateway.boards.index import Index
from gateway.clock import Clock, wall_clock
from gateway.failpoints import Point, reach
from gateway.ledger import work
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import Lease
from gateway.recordings.recordings import Recordings
from gateway.settings import Settings
from gateway.settlement import Decision, settle
from gateway.steward.dispatch import JOB_KEPT_S, JOB_TIMEOUT_S, QUEUE_NAME, VERIFY_JOB
from gateway.telemetry import Event, logger
from gateway.wiring import load_policies, open_index, open_ledger, open_recordings
from policies.errors import RecordingLost, RecordingsUnavailable, ScoregateError
from policies.loader import Board, Simulator
from policies.model import Order
from policies.vocabulary import Finding, Reason, Severity, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.simulators.sandbox import Sandbox
from replay.verify import verify
from validators.judge import judge_verdict

SETTLE_EVERY_S: Final = 0.2
"""Verdicts of one job are settled together, but none waits longer than this for the next one."""

MAINTENANCE_S: Final = 60

WORKER_TTL_S: Final = 30
"""RQ's measure of a worker that is gone; it waits for jobs half of this at a time, and notices a dead connection then."""

RETRY_S: Final = 0.5

JOB_BYTES: Final = 65_536
"""Most bytes of a job's data in Redis: several times what the largest batch of ids takes."""

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
        try:
            verdict = await self._verdict(lease)
        except RecordingsUnavailable as error:
            _log.warning(Event.DUTY_FAILED, duty="verify", submission=found.submission_id, error=str(error))
            return None
        judgement = judge_verdict(verdict, (*found.findings, *self._reuse(lease)))
        _log.info(Event.VERDICT, submission=found.submission_id, verdict=verdict.kind, reason=verdict.reason)
        return self._decision(lease, judgement.state, judgement.reason, _evidence(verdict, lease))

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

    async def _verdict(self, lease: Lease) -> Verdict:
        found = lease.submission
        board = self._boards[found.board]
        replay, simulator = board.policy.replay, _simulator_of(board, found.build, found.simulator)
        if replay is None or simulator is None:
            engine = self._simulators.engine
            return Verdict(VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_MISSING, found.simulator, engine)
        try:
            recording = await self._recordings.load(lease.recording) if lease.recording else None
        except RecordingLost:
            engine = self._simulators.engine
            return Verdict(VerdictKind.INCONCLUSIVE, Reason.RECORDING_LOST, found.simulator, engine)
        return verify(found.claim, recording, found.seed, replay, simulator, self._simulators)

    def _reuse(self, lease: Lease) -> tuple[Finding, ...]:
        """A flag for a recording that was sent before, unless it is worth nothing.

        A run that ends before its first checkpoint has nothing of its seed in it: two players who give up at once have
        the same recording, and neither stole it.
        """
        policy = self._boards[lease.submission.board].policy
        least = policy.score.maximum if policy.order is Order.ASCENDING else policy.score.minimum
        if not lease.is_recording_reused or lease.submission.claim.score == least:
            return ()
        return (Finding(Reason.RECORDING_REUSED, Severity.FLAG, 1, "a recording of its own"),)

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


def _evidence(verdict: Verdict, lease: Lease) -> dict[str, int | str | None]:
    return {
        "verdict": verdict.kind.value,
        "verdict_reason": verdict.reason.value,
        "simulator": verdict.simulator,
        "engine": verdict.engine,
        "first_divergent_tick": verdict.first_divergent_tick,
        "attempt": lease.attempt,
        **verdict.detail,
    }


class VerifyJob(Job):
    """A job that can do nothing but verify, whatever somebody wrote into Redis: any other is no job at all."""

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Takes which submissions to verify, and nothing else that stands there: no callbacks, time-outs, retries.

        Raises NoSuchJobError for a job that is not ours.
        """
        data = raw_data.get(b"data", b"")
        if len(data) > JOB_BYTES:
            raise self._refused()
        super().restore({b"data": data, b"origin": QUEUE_NAME.encode()})
        self.timeout, self.result_ttl, self.failure_ttl = JOB_TIMEOUT_S, 0, JOB_KEPT_S
        if not self._is_ours():
            raise self._refused()

    def perform(self) -> int:
        """How many submissions were judged. What could not be done now comes again from the ledger."""
        reach(Point.AT_DEQUEUE)
        try:
            return verify_submissions(self.args[0])
        except ScoregateError as error:
            _log.warning(Event.DUTY_FAILED, duty="verify", error=str(error))
            return 0

    def _is_ours(self) -> bool:
        try:
            [ids] = self.args
        except (DeserializationError, TypeError, ValueError):
            return False
        are_ids = isinstance(ids, list) and all(isinstance(each, str) for each in ids)
        return are_ids and self.func_name == VERIFY_JOB and not self.kwargs

    def _refused(self) -> NoSuchJobError:
        _log.error(Event.JOB_REFUSED, job=self.id)
        return NoSuchJobError(self.id)


class VerifyWorker(SimpleWorker):
    """RQ's worker, which ends for nobody but whoever may signal this process, and then without delay."""

    max_connection_wait_time = 2.0
    is_told_to_stop = False

    def request_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - RQ's signature
        """Ends the work after the job at hand; at once if there is none."""
        self.is_told_to_stop = self._stop_requested = True
        if self.get_state() != WorkerStatus.BUSY:
            raise StopRequested

    def subscribe(self) -> None:
        """Nothing: commands out of Redis are anybody's."""


class _Process:
    """The parts of this worker process; RQ calls functions, so the function has to find them."""

    runner: asyncio.Runner | None = None
    verifier: Verifier | None = None


def verify_submissions(submission_ids: list[str]) -> int:
    """How many submissions were judged. The one job there is; runs inside `run_worker`.

    Raises LedgerUnavailable, after which the steward queues them again.
    """
    if _Process.runner is None or _Process.verifier is None:
        raise ScoregateError("a verification runs in a worker process alone")
    return _Process.runner.run(_Process.verifier.verify_all(submission_ids))


def run_worker(settings: Settings, *, burst: bool = False) -> None:
    """Works until told to stop by SIGTERM or SIGINT, finishing the job at hand."""
    boards = load_policies(settings)
    with asyncio.Runner() as runner, Sandbox() as sandbox:
        stack = AsyncExitStack()
        ledger = runner.run(stack.enter_async_context(open_ledger(settings)))
        index = runner.run(stack.enter_async_context(open_index(settings, boards)))
        recordings = runner.run(stack.enter_async_context(open_recordings(settings)))
        _Process.runner = runner
        _Process.verifier = Verifier(settings, boards, ledger, index, sandbox, recordings=recordings)
        _log.info(Event.STARTED, part="worker")
        try:
            _work(settings, burst=burst)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # we are ending; being told again must not break it off
            runner.run(stack.aclose())
        _log.info(Event.STOPPED, part="worker")


def _work(settings: Settings, *, burst: bool) -> None:
    """Has RQ work, again and again: it gives up when Redis goes away or a job in it makes no sense."""
    client = Redis.from_url(settings.jobs_url)
    with suppress(StopRequested):
        while not _work_for_a_while(client, burst=burst):
            time.sleep(RETRY_S)


def _work_for_a_while(client: Redis, *, burst: bool) -> bool:
    """True if that was all; False if RQ gave up."""
    queue = Queue(QUEUE_NAME, connection=client, serializer=JSONSerializer, job_class=VerifyJob)
    try:
        worker = VerifyWorker(
            [queue],
            connection=client,
            serializer=JSONSerializer,
            job_class=VerifyJob,
            worker_ttl=WORKER_TTL_S,
            maintenance_interval=MAINTENANCE_S,
            log_job_description=False,
        )
        worker.work(burst=burst, logging_level="WARNING")
        if burst or worker.is_told_to_stop:
            return True
        # What RQ could not read would end the next worker too. The ledger gives its submissions out again.
        client.delete(queue.intermediate_queue_key, queue.started_job_registry.key)
    except (RedisError, OSError) as error:
        _log.warning(Event.INDEX_DOWN, part="worker", error=str(error))
    return False
