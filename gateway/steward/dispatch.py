"""Hands submissions that wait for a verdict to RQ, by name and by id, the most harmful first, and remembers to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

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


class Lane(StrEnum):
    """Where work waits for workers. Each worker serves one: on several it would lose a job when it crashes.

    (RQ waits on several queues with BLPOP, which hands a job over without keeping it.) `urgent` takes what would do most
    harm, `main` takes everything.
    """

    MAIN = "main"
    URGENT = "urgent"

    @property
    def queue_name(self) -> str:
        """The name of the lane's queue in RQ."""
        return QUEUE_NAME if self is Lane.MAIN else f"{QUEUE_NAME}-{self.value}"


VERIFY_JOB: Final = "replay.worker.process.verify_submissions"
"""What a worker runs for submissions that wait. Named, not imported: the gateway does not know the replay room."""

AUDIT_JOB: Final = "replay.worker.process.audit_submissions"
"""What it runs for those that were drawn for an audit. There is nothing else that it runs."""

JOB_OF: Final = {"verify": VERIFY_JOB, "recheck": VERIFY_JOB, "audit": AUDIT_JOB}
"""The function for each kind of work in the outbox."""

JOB_TIMEOUT_S: Final = 3600
"""RQ's own limit; the real ones are the lease and the simulator's wall clock."""

JOB_KEPT_S: Final = 3600
"""How long RQ may remember a job that nobody takes or ends. The ledger asks again long before."""

QUEUED_JOBS: Final = 16
"""Most jobs of a lane that lie in RQ for each of its workers. The rest waits in the ledger, where nothing is lost or
queued twice and what is worse can still go first; so many keep a worker at it for longer than a round of the steward."""

AGEING_MS: Final = 30_000
"""How much later a submission may come for each unit of harm, and still go first."""

MOST_OVERTAKEN_MS: Final = max(HARMS) * AGEING_MS
"""The bound on waiting: nothing that was due so much later is handed out before what is due, however harmful."""


AUDITS_AT_ONCE: Final = 4
"""Most audits that workers may have at a time, whatever the workers. A verdict that goes into RQ finds so many there at
most, two simulations each; audits keep their place in the order otherwise, so that no backlog keeps them from being done."""


class JobQueue(Protocol):
    """Where jobs go. Fails open: what it does not take stays due in the ledger."""

    async def rooms(self) -> Mapping[Lane, int]:
        """How many more jobs each lane takes now; 0 for one that cannot be reached, or has no worker but is not the main one."""
        ...

    async def put(self, lane: Lane, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """True if every job was queued; each is the rows of some submissions."""
        ...


class RqJobs:
    """RQ, called off the event loop since its client blocks."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._queues = {
            lane: Queue(
                lane.queue_name, connection=client, serializer=JSONSerializer, default_timeout=JOB_TIMEOUT_S
            )
            for lane in Lane
        }

    async def rooms(self) -> Mapping[Lane, int]:
        """How many more jobs each lane takes now; 0 for one that cannot be reached, or has no worker but is not the main one."""
        try:
            with _queueing():
                return await asyncio.to_thread(lambda: {lane: self._room(lane) for lane in Lane})
        except QueueUnavailable:
            return dict.fromkeys(Lane, 0)

    async def put(self, lane: Lane, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """True if every job was queued; each is the rows of some submissions."""
        try:
            with _queueing():
                await asyncio.to_thread(self._put, lane, jobs)
        except QueueUnavailable:
            return False
        return True

    def _room(self, lane: Lane) -> int:
        queue = self._queues[lane]
        known = get_keys(queue)
        workers = int(self._client.exists(*known)) if known else 0
        if not workers and lane is not Lane.MAIN:
            return 0
        return max(0, QUEUED_JOBS * max(1, workers) - queue.count)

    def _put(self, lane: Lane, jobs: Sequence[Sequence[OutboxRow]]) -> None:
        for job in jobs:
            ids = [row.submission_id for row in job]
            self._queues[lane].enqueue_call(
                JOB_OF[job[0].kind], args=(ids,), ttl=JOB_KEPT_S, result_ttl=0, failure_ttl=JOB_KEPT_S
            )


def _queueing() -> AbstractContextManager[None]:
    """Has whatever RQ or its Redis raises say so as QueueUnavailable."""
    return boundary(FaultPlace.QUEUE, QueueUnavailable, known=(*FAULTS, RedisError))


class Job(NamedTuple):
    """The rows of some submissions that are verified together."""

    rows: list[OutboxRow]
    is_urgent: bool


def in_order(rows: Sequence[OutboxRow]) -> list[OutboxRow]:
    """The rows in the order in which they are handed out: each unit of harm is worth `AGEING_MS` of waiting."""
    return sorted(rows, key=_rank)


def jobs_of(rows: Sequence[OutboxRow], batch: int, *, has_urgent_lane: bool) -> list[Job]:
    """The rows as jobs of up to `batch` submissions, in the order of the first of each.

    What was leased before goes alone: it may be what kills workers. What was handed out before is urgent no more: the
    worker that it was handed to may be one that is gone, and RQ takes up to an hour to forget one.
    """
    jobs: list[Job] = []
    filling: dict[tuple[str, bool], Job] = {}
    for row in in_order(rows):
        is_urgent = has_urgent_lane and row.priority >= URGENT and not row.is_returned
        job = filling.get((row.kind, is_urgent))
        if row.attempt or job is None or len(job.rows) == batch:
            job = Job([], is_urgent)
            jobs.append(job)
            if not row.attempt:
                filling[row.kind, is_urgent] = job
        job.rows.append(row)
    return jobs


def shared_out(jobs: Sequence[Job], rooms: Mapping[Lane, int]) -> Iterator[tuple[Lane, list[OutboxRow]]]:
    """Which lane takes which job, as far as there is room: what is urgent goes where there is more of it."""
    left = dict(rooms)
    for job in jobs:
        lane = Lane.URGENT if job.is_urgent and left[Lane.URGENT] >= left[Lane.MAIN] else Lane.MAIN
        if left[lane]:
            left[lane] -= 1
            yield lane, job.rows


def _rank(row: OutboxRow) -> tuple[int, int]:
    return (row.due_at_ms - row.priority * AGEING_MS, row.seq)
