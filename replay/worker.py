"""The RQ worker: takes submission ids, verifies each in the sandbox, and settles. The one file here with sockets.

RQ only says when to look. What is to be done, who does it, and how often it was tried stands in the ledger: a job that
is lost, doubled, forged or left behind by a crash changes no verdict.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.serializers import JSONSerializer

from gateway.boards.index import Index
from gateway.clock import Clock, wall_clock
from gateway.ledger import queries
from gateway.ledger.records import Lease
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings import Settings
from gateway.settlement import Decision, settle, trusted
from gateway.steward.dispatch import QUEUE_NAME, VERIFY_JOB
from gateway.telemetry import Event, logger
from gateway.wiring import load_policies, open_index, open_ledger
from policies.errors import ScoregateError
from policies.loader import Board, Simulator
from policies.vocabulary import Finding, Reason, Severity, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.simulators.sandbox import Sandbox
from replay.verify import verify
from validators.judge import judge_verdict

SETTLE_EVERY_S: Final = 0.2
"""Verdicts of one job are settled together, but none waits longer than this for the next one."""

MAINTENANCE_S: Final = 60

_log = logger()


class Verifier:
    """Turns waiting submissions into settled ones."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: SqliteLedger,
        index: Index,
        simulators: Simulators,
        clock: Clock = wall_clock,
    ) -> None:
        self._settings = settings
        self._boards = boards
        self._ledger = ledger
        self._index = index
        self._simulators = simulators
        self._clock = clock

    async def verify_all(self, submission_ids: Sequence[str]) -> int:
        """How many of the submissions were judged here; the others are settled or in another worker's hands.

        Raises LedgerUnavailable; what was not settled by then comes again when its lease has ended.
        """
        lease_ms = (self._settings.lease_s + self._longest_s() * len(submission_ids)) * 1000
        leases = await self._ledger.write(
            queries.lease_all(submission_ids, now_ms=self._clock(), lease_ms=lease_ms)
        )
        unsettled: list[tuple[str, Decision]] = []
        settled_at = time.monotonic()
        for lease in leases:
            unsettled.append((lease.submission.board, self._decide(lease)))
            if time.monotonic() - settled_at > SETTLE_EVERY_S:
                await self._settle(unsettled)
                unsettled, settled_at = [], time.monotonic()
        await self._settle(unsettled)
        return len(leases)

    async def _settle(self, decisions: Sequence[tuple[str, Decision]]) -> None:
        by_board: dict[str, list[Decision]] = defaultdict(list)
        for board, decision in decisions:
            by_board[board].append(decision)
        for board, group in by_board.items():
            await settle(self._ledger, self._index, self._boards[board], group)

    def _decide(self, lease: Lease) -> Decision:
        found = lease.submission
        if found.is_from_server:
            # Its own request did not live to settle it; the signature was checked before it was stored.
            return trusted(found.submission_id, found.credential, self._clock())
        if lease.attempt > self._settings.verify_attempts:
            return self._decision(lease, State.HELD, Reason.ATTEMPTS_EXHAUSTED, {})
        verdict = self._verdict(lease)
        judgement = judge_verdict(verdict, (*found.findings, *_reuse(lease)))
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

    def _verdict(self, lease: Lease) -> Verdict:
        found = lease.submission
        board = self._boards.get(found.board)
        simulator = _simulator_of(board, found.build, found.simulator)
        if board is None or board.policy.replay is None or simulator is None:
            return Verdict(
                VerdictKind.INCONCLUSIVE, Reason.SIMULATOR_MISSING, found.simulator, self._simulators.engine
            )
        return verify(found.claim, lease.recording, found.seed, board.policy.replay, simulator, self._simulators)

    def _longest_s(self) -> int:
        """The most that one re-simulation may take on any board, in whole seconds."""
        budgets = [board.policy.replay.budget.wall_ms for board in self._boards.values() if board.policy.replay]
        return -(-max(budgets, default=0) // 1000)


def _simulator_of(board: Board | None, build: str, digest: str) -> Simulator | None:
    """The installed simulator of the ticket's build, if it is the very one the ticket was issued for."""
    simulator = board.simulators.get(build) if board else None
    return simulator if simulator and simulator.digest == digest else None


def _reuse(lease: Lease) -> tuple[Finding, ...]:
    if not lease.is_recording_reused:
        return ()
    return (Finding(Reason.RECORDING_REUSED, Severity.FLAG, 1, "a recording of its own"),)


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


class JobRefused(ScoregateError):
    """The job is not one of ours."""


class VerifyJob(Job):  # type: ignore[misc]
    """A job that can do nothing but verify, whatever somebody wrote into Redis: no other function, no callbacks."""

    def perform(self) -> Any:
        """Verifies the submissions the job names. Raises JobRefused for anything else."""
        args = self.args
        if self.func_name != VERIFY_JOB or self.kwargs or len(args) != 1 or not _are_ids(args[0]):
            _log.error(Event.JOB_REFUSED, job=self.id)
            raise JobRefused
        return verify_submissions(args[0])

    def execute_success_callback(self, *_: Any) -> None:
        """Nothing: a callback is a function name out of Redis."""

    def execute_failure_callback(self, *_: Any) -> None:
        """Nothing: a callback is a function name out of Redis."""

    def execute_stopped_callback(self, *_: Any) -> None:
        """Nothing: a callback is a function name out of Redis."""

    def send_webhooks(self, *_: Any) -> None:
        """Nothing: a webhook is an address out of Redis."""


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


class _Process:
    """The parts of this worker process; RQ calls functions, so the function has to find them."""

    runner: asyncio.Runner | None = None
    verifier: Verifier | None = None


def verify_submissions(submission_ids: list[str]) -> int:
    """How many submissions were judged. The one job there is; runs inside `run_worker`.

    Raises LedgerUnavailable, after which the steward queues them again.
    """
    if _Process.runner is None or _Process.verifier is None:
        raise JobRefused("a verification runs in a worker process alone")
    return _Process.runner.run(_Process.verifier.verify_all(submission_ids))


def run_worker(settings: Settings, *, burst: bool = False) -> None:
    """Works until told to stop by SIGTERM or SIGINT, finishing the job at hand."""
    boards = load_policies(settings)
    with asyncio.Runner() as runner, Sandbox() as sandbox:
        stack = AsyncExitStack()
        ledger = runner.run(stack.enter_async_context(open_ledger(settings)))
        index = runner.run(stack.enter_async_context(open_index(settings, boards)))
        _Process.runner = runner
        _Process.verifier = Verifier(settings, boards, ledger, index, sandbox)
        try:
            _work(settings, burst=burst)
        finally:
            runner.run(stack.aclose())


def _work(settings: Settings, *, burst: bool) -> None:
    client = Redis.from_url(settings.jobs_url)
    queue = Queue(QUEUE_NAME, connection=client, serializer=JSONSerializer, job_class=VerifyJob)
    worker = SimpleWorker(
        [queue],
        connection=client,
        serializer=JSONSerializer,
        job_class=VerifyJob,
        maintenance_interval=MAINTENANCE_S,
        log_job_description=False,
    )
    worker.work(burst=burst, logging_level="WARNING")
