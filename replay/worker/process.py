"""The worker's process. RQ hands it submission ids; everything else in Redis is ignored."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, ClassVar, Final

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError, NoSuchJobError, StopRequested
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import WorkerStatus

from gateway.deployment.policies_folder import note_policies_folder
from gateway.deployment.presence import PartKind, present_on_a_thread
from gateway.deployment.reference_clock import ReferenceClock
from gateway.deployment.reload_answers import teller
from gateway.deployment.run_files import PartFile, noted
from gateway.deployment.time_sources import shared_clock
from gateway.index.connection import DRIVER
from gateway.ledger.submissions.work import PROJECT_AFTER_MS
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.forced_exit import end_within
from gateway.runtime.reload import Reload
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from gateway.settlement.unprojected import UnprojectedChanges, keep_projecting
from gateway.steward.dispatch import AUDIT_JOB, JOB_KEPT_S, JOB_TIMEOUT_S, VERIFY_JOB, VerificationQueue
from gateway.wiring import catalogue_of, open_index, open_ledger, open_recordings
from policies.errors import ScoregateError, SettingsError
from policies.loader import Policies, load_policies
from policies.vocabulary import SimulatorKind
from replay.simulators import bubblewrap
from replay.simulators.all_simulators import AllSimulators
from replay.worker.audit import Auditor
from replay.worker.verifier import Verifier
from replay.worker.worker_policies import WorkerPolicies

MAINTENANCE_S: Final = 60

WORKER_TTL_S: Final = 30
"""After this time RQ counts a worker as gone. It waits for jobs half as long at a time, and then notices a
dead connection."""

RETRY_S: Final = 0.5

PROJECTED_WITHIN_S: Final = PROJECT_AFTER_MS / 1000
"""How long a job waits for Redis to show what it settled; after that the steward shows it."""

JOB_BYTES: Final = 65_536
"""Most bytes of a job's data in Redis: several times the largest batch of ids."""

_log = logger()


class VerifyJob(Job):
    """A job that can only verify and audit, whatever somebody wrote into Redis. Any other is not a job."""

    queue: ClassVar = VerificationQueue.MAIN

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Read which submissions to verify and ignore everything else: callbacks, time-outs, retries.

        Raises NoSuchJobError for a job that is not ours.
        """
        data = raw_data.get(b"data", b"")
        if len(data) > JOB_BYTES:
            raise self._refused()
        super().restore({b"data": data, b"origin": self.queue.rq_name.encode()})
        self.timeout, self.result_ttl, self.failure_ttl = JOB_TIMEOUT_S, 0, JOB_KEPT_S
        if not self._is_ours():
            raise self._refused()

    def perform(self) -> int:
        """Return how many submissions were judged. What could not be done now comes again from the ledger."""
        reach(Point.AT_DEQUEUE)
        try:
            return RUNS[str(self.func_name)](self.args[0])
        except ScoregateError as error:
            _log.warning(Event.DUTY_FAILED, duty="verify", error=str(error))
            return 0

    def _is_ours(self) -> bool:
        try:
            [ids] = self.args
        except (DeserializationError, TypeError, ValueError):
            return False
        are_ids = isinstance(ids, list) and all(isinstance(submission_id, str) for submission_id in ids)
        return are_ids and self.func_name in RUNS and not self.kwargs

    def _refused(self) -> NoSuchJobError:
        _log.error(Event.JOB_REFUSED, job=self.id)
        return NoSuchJobError(self.id)


class UrgentJob(VerifyJob):
    """The same job in the urgent queue; RQ keeps a job's records under its queue."""

    queue: ClassVar = VerificationQueue.URGENT


JOBS: Final = {kind.queue: kind for kind in (VerifyJob, UrgentJob)}


class VerifyWorker(SimpleWorker):
    """RQ's worker, which stops only for signals to this process, and then without delay."""

    max_connection_wait_time = 2.0

    def request_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - RQ's signature
        """End after the current job if it ends within the grace period; at once if there is none."""
        # The process notes it because RQ loses it: while Redis is away, RQ's way out of the work fails too.
        if not _Process.is_told_to_stop:
            end_within(_Process.grace_s, "worker")
        _Process.is_told_to_stop = self._stop_requested = True
        if self.get_state() != WorkerStatus.BUSY:
            raise StopRequested

    def subscribe(self) -> None:
        """Ignore RQ's command channel: anybody with Redis could send commands."""


class _Process:
    """The parts of this worker process. RQ calls plain functions, which find the parts here."""

    runner: asyncio.Runner | None = None
    verifier: Verifier | None = None
    auditor: Auditor | None = None
    policies: WorkerPolicies | None = None
    is_hung_up = False
    clock: ReferenceClock | None = None
    unprojected: UnprojectedChanges | None = None
    is_told_to_stop = False
    is_started = False
    grace_s = 0.0


def verify_submissions(submission_ids: list[str]) -> int:
    """Return how many submissions were judged. Works only inside `run_worker`.

    Raises LedgerUnavailable, after which the steward queues them again.
    """
    if _Process.runner is None or _Process.verifier is None or _Process.policies is None:
        raise ScoregateError("a verification runs only in a worker process")
    with _Process.policies.held():
        return _Process.runner.run(_on_time(_Process.verifier.verify_all(submission_ids)))


def audit_submissions(submission_ids: list[str]) -> int:
    """Return how many submissions were audited. Works only inside `run_worker`.

    Raises LedgerUnavailable, after which the steward queues them again.
    """
    if _Process.runner is None or _Process.auditor is None or _Process.policies is None:
        raise ScoregateError("an audit runs only in a worker process")
    with _Process.policies.held():
        return _Process.runner.run(_on_time(_Process.auditor.audit_all(submission_ids)))


async def _on_time(work: Awaitable[int]) -> int:
    """Return a job's result, after refreshing the shared clock, which nobody does while the worker waits."""
    if _Process.clock:
        await _Process.clock.refresh()
    try:
        return await work
    finally:
        await _wait_until_projected()


async def _wait_until_projected() -> None:
    """Wait until Redis shows what the job settled, since nothing is shown while the worker waits."""
    if _Process.unprojected:
        with suppress(TimeoutError):
            async with asyncio.timeout(PROJECTED_WITHIN_S):
                await _Process.unprojected.wait_until_projected()


RUNS: Final = {VERIFY_JOB: verify_submissions, AUDIT_JOB: audit_submissions}
"""Everything that a job can do."""


def run_worker(
    settings: Settings, *, queue: VerificationQueue = VerificationQueue.MAIN, burst: bool = False
) -> None:
    """Work in one queue until SIGTERM or SIGINT, and finish the current job.

    Raises SettingsError if native programs must run in bubblewrap, and it cannot be used.
    """
    _Process.policies, _Process.is_hung_up = None, False
    _Process.is_told_to_stop, _Process.is_started = False, False
    signal.signal(signal.SIGHUP, _hang_up)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    # A reload that comes after this worker has read the files must find it.
    with noted(settings.data_dir, PartKind.WORKER, settings.redis_url) as part_file:
        _run(settings, part_file, queue, burst=burst)


def _run(settings: Settings, part_file: PartFile, queue: VerificationQueue, *, burst: bool) -> None:
    began_ns, policies = time.monotonic_ns(), load_policies(settings.policies_dir)
    trouble = trouble_with_bubblewrap(policies)
    if trouble and settings.needs_bubblewrap:
        raise SettingsError(f"SCOREGATE_SANDBOX: bubblewrap cannot be used here: {trouble}")
    opened = partial(AllSimulators, needs_bubblewrap=settings.needs_bubblewrap)
    with asyncio.Runner() as runner, opened() as simulators:
        stack = AsyncExitStack()
        ledger = runner.run(stack.enter_async_context(open_ledger(settings)))
        catalogue = catalogue_of(settings, ledger, policies)
        index = runner.run(stack.enter_async_context(open_index(settings)))
        recordings = runner.run(stack.enter_async_context(open_recordings(settings)))
        _Process.unprojected = runner.run(stack.enter_async_context(keep_projecting(ledger, index)))
        clock = runner.run(shared_clock(settings, ledger, index.client, policies.by_name.values()))
        _Process.runner, _Process.clock = runner, clock
        common: dict[str, Any] = {"recordings": recordings, "clock": clock}

        def put(policies: Policies) -> None:
            if trouble := trouble_with_bubblewrap(policies):
                _log.warning(Event.NO_BUBBLEWRAP, trouble=trouble)
            _Process.verifier = Verifier(settings, catalogue, ledger, index, simulators, **common)
            _Process.auditor = Auditor(settings, catalogue, ledger, opened, **common)

        put(policies)
        tell = teller(part_file, catalogue)
        tell(Reload(began_ns, policies))
        _heed_reloads(WorkerPolicies(settings, catalogue, put, tell))
        note_policies_folder(settings, PartKind.WORKER)
        _log.info(Event.STARTED, part="worker")
        try:
            with (
                present_on_a_thread(settings, PartKind.WORKER, lambda: catalogue.policies.by_name),
                _ending_undisturbed(),
            ):
                _work(settings, queue, burst=burst)
        finally:
            runner.run(stack.aclose())
        _log.info(Event.STOPPED, part="worker")


def _hang_up(number: int, frame: FrameType | None) -> None:
    """Handle SIGHUP, also while this process starts: then the files are read again once it has."""
    if _Process.policies is None:
        _Process.is_hung_up = True
    else:
        _Process.policies.hang_up(number, frame)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    """Handle SIGTERM and SIGINT until RQ does: what has begun to open is opened, and closed in order."""
    _Process.is_told_to_stop = True
    if _Process.is_started:
        raise StopRequested


@contextmanager
def _ending_undisturbed() -> Iterator[None]:
    """Run a block, after which no other signal interrupts the shutdown."""
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


def _heed_reloads(policies: WorkerPolicies) -> None:
    """Let SIGHUP change these policies from now on, and do what it asked for before."""
    _Process.policies = policies
    if _Process.is_hung_up:
        policies.hang_up(signal.SIGHUP, None)


def trouble_with_bubblewrap(policies: Policies) -> str:
    """Return why native programs of these boards run without bubblewrap; empty if they do not."""
    replays = (entry.policy.replay for entry in policies.by_name.values())
    has_programs = any(replay and replay.simulator is SimulatorKind.PROCESS for replay in replays)
    return bubblewrap.probe().trouble if has_programs else ""


def _work(settings: Settings, queue: VerificationQueue, *, burst: bool) -> None:
    """Run RQ again and again, since it gives up when Redis goes away or a job makes no sense."""
    client = Redis.from_url(settings.jobs_url, driver_info=DRIVER)
    _Process.grace_s = settings.shutdown_grace_s
    with suppress(StopRequested):
        _Process.is_started = True
        while not (_Process.is_told_to_stop or _work_for_a_while(client, queue, burst=burst)):
            time.sleep(RETRY_S)


def _work_for_a_while(client: Redis, queue: VerificationQueue, *, burst: bool) -> bool:
    """Return True if the work is over, False if RQ gave up."""
    rq_queue = Queue(queue.rq_name, connection=client, serializer=JSONSerializer, job_class=JOBS[queue])
    try:
        worker = VerifyWorker(
            [rq_queue],
            connection=client,
            serializer=JSONSerializer,
            job_class=JOBS[queue],
            worker_ttl=WORKER_TTL_S,
            maintenance_interval=MAINTENANCE_S,
            log_job_description=False,
        )
        worker.work(burst=burst, logging_level="WARNING")
        if burst or _Process.is_told_to_stop:
            return True
        # A job that RQ could not read would end the next worker too. The ledger queues its submissions again.
        client.delete(rq_queue.intermediate_queue_key, rq_queue.started_job_registry.key)
    except StopRequested:
        raise
    except (RedisError, OSError) as error:
        _log.warning(Event.INDEX_DOWN, part="worker", error=str(error))
    except Exception as error:  # noqa: BLE001 - whatever RQ raises, the ledger hands the work out again
        report(FaultPlace.WORKER, error)
    return False
