"""Queues submissions that wait for a verdict in RQ, by name and id, the most harmful first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.serializers import JSONSerializer
from rq.worker_registration import get_keys

from gateway.ledger.records import OutboxRow
from gateway.runtime.boundary import FAULTS, boundary
from gateway.runtime.unexpected import FaultPlace
from policies.errors import QueueUnavailable
from validators.verification_priority import HARMS, URGENT

QUEUE_NAME: Final = "scoregate-verify"


class VerificationQueue(StrEnum):
    """A queue of jobs for workers: `urgent` takes the most harmful submissions, `main` takes everything.

    Each worker serves one queue. On several, RQ waits with BLPOP, which would lose a job if the worker
    crashes.
    """

    MAIN = "main"
    URGENT = "urgent"

    @property
    def rq_name(self) -> str:
        """The queue's name in RQ."""
        return QUEUE_NAME if self is VerificationQueue.MAIN else f"{QUEUE_NAME}-{self.value}"


VERIFY_JOB: Final = "replay.worker.process.verify_submissions"
"""A worker's function for waiting submissions, named and not imported: the gateway does not know `replay`."""

AUDIT_JOB: Final = "replay.worker.process.audit_submissions"
"""A worker's function for submissions drawn for an audit. Workers run no other functions."""

JOB_OF: Final = {"verify": VERIFY_JOB, "recheck": VERIFY_JOB, "audit": AUDIT_JOB}
"""The function for each kind of work in the outbox."""

JOB_TIMEOUT_S: Final = 3600
"""RQ's own limit; the lease and the simulator's wall clock end a job long before."""

JOB_KEPT_S: Final = 3600
"""How long RQ may keep a job that nobody takes or ends. The ledger hands the work out again long before."""

QUEUED_JOBS: Final = 4
"""Most jobs of a queue in RQ for each of its workers: enough to keep one busy for longer than a round, and so
few that a backlog goes in large jobs. The rest waits in the ledger, where nothing is lost or queued twice,
and more harmful work can still go first."""

SMALL_JOB: Final = 16
"""Submissions of a job while the queue has room for all that is due, so that idle workers share it."""

AGEING_MS: Final = 30_000
"""How much earlier a submission ranks for each unit of harm."""

MOST_OVERTAKEN_MS: Final = max(HARMS) * AGEING_MS
"""The bound on overtaking: no submission goes before one that was due this much earlier, however harmful."""


AUDITS_AT_ONCE: Final = 4
"""Most audits in RQ or with workers at a time, of two simulations each: a verdict waits behind no more.
Audits otherwise keep their place in the order, so that a backlog does not stop them."""


class JobQueue(Protocol):
    """A queue of jobs. Fails open: a job that it does not take stays due in the ledger."""

    async def rooms(self) -> Mapping[VerificationQueue, int]:
        """Return how many more jobs each queue takes now.

        It is 0 for a queue that cannot be reached, and for a queue other than `main` without a worker.
        """
        ...

    async def put(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """Queue jobs, each the rows of some submissions, and return whether all were queued."""
        ...


class RqJobs:
    """RQ, called off the event loop since its client blocks."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._queues = {
            queue: Queue(
                queue.rq_name, connection=client, serializer=JSONSerializer, default_timeout=JOB_TIMEOUT_S
            )
            for queue in VerificationQueue
        }

    async def rooms(self) -> Mapping[VerificationQueue, int]:
        """Return how many more jobs each queue takes now; 0 if Redis cannot be reached."""
        try:
            with _queueing():
                return await asyncio.to_thread(
                    lambda: {queue: self._room(queue) for queue in VerificationQueue}
                )
        except QueueUnavailable:
            return dict.fromkeys(VerificationQueue, 0)

    async def put(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """Queue jobs and return whether all were queued."""
        try:
            with _queueing():
                await asyncio.to_thread(self._put, queue, jobs)
        except QueueUnavailable:
            return False
        return True

    def _room(self, queue: VerificationQueue) -> int:
        rq_queue = self._queues[queue]
        worker_keys = get_keys(rq_queue)
        # The registry also names dead workers, but their keys expire.
        workers = int(self._client.exists(*worker_keys)) if worker_keys else 0
        if not workers and queue is not VerificationQueue.MAIN:
            return 0
        return max(0, QUEUED_JOBS * max(1, workers) - rq_queue.count)

    def _put(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> None:
        kept: Any = {"ttl": JOB_KEPT_S, "result_ttl": 0, "failure_ttl": JOB_KEPT_S}
        prepared = [
            Queue.prepare_data(JOB_OF[job[0].kind], args=[[row.submission_id for row in job]], **kept)
            for job in jobs
        ]
        self._queues[queue].enqueue_many(prepared)


def _queueing() -> AbstractContextManager[None]:
    """Turn errors of RQ and its Redis into QueueUnavailable."""
    return boundary(FaultPlace.QUEUE, QueueUnavailable, known=(*FAULTS, RedisError))


class Job(NamedTuple):
    """The rows of submissions that are verified together."""

    rows: list[OutboxRow]
    is_urgent: bool


def in_order(rows: Sequence[OutboxRow]) -> list[OutboxRow]:
    """Return the rows in the order of dispatch: each unit of harm is worth `AGEING_MS` of waiting."""
    return sorted(rows, key=_rank)


def size_of_jobs(due: int, rooms: Mapping[VerificationQueue, int], *, most: int) -> int:
    """Return how many submissions a job may take: more, the less room is left for what is due."""
    room = max(1, sum(rooms.values()))
    return min(most, max(SMALL_JOB, -(-due // room)))


def jobs_of(rows: Sequence[OutboxRow], batch: int, *, has_urgent_queue: bool) -> list[Job]:
    """Return the rows as jobs of up to `batch` submissions, in the order of their first rows."""
    jobs: list[Job] = []
    filling: dict[tuple[str, bool], Job] = {}
    for row in in_order(rows):
        # A row that returned may have gone to a dead worker, which RQ takes up to an hour to forget.
        is_urgent = has_urgent_queue and row.priority >= URGENT and not row.is_returned
        job = filling.get((row.kind, is_urgent))
        # A submission that was leased before goes alone: it may be one that kills workers.
        if row.attempt or job is None or len(job.rows) == batch:
            job = Job([], is_urgent)
            jobs.append(job)
            if not row.attempt:
                filling[row.kind, is_urgent] = job
        job.rows.append(row)
    return jobs


def shared_out(
    jobs: Sequence[Job], rooms: Mapping[VerificationQueue, int]
) -> Iterator[tuple[VerificationQueue, list[OutboxRow]]]:
    """Yield the queue of each job while there is room; an urgent job takes the queue with more room."""
    left = dict(rooms)
    for job in jobs:
        goes_first = job.is_urgent and left[VerificationQueue.URGENT] >= left[VerificationQueue.MAIN]
        queue = VerificationQueue.URGENT if goes_first else VerificationQueue.MAIN
        if left[queue]:
            left[queue] -= 1
            yield queue, job.rows


def _rank(row: OutboxRow) -> tuple[int, int]:
    return (row.due_at_ms - row.priority * AGEING_MS, row.seq)
