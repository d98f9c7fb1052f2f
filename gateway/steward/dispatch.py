"""Hands submissions that wait for a verdict to RQ, by name and by id, and remembers to ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from redis import Redis
from redis.exceptions import RedisError
from rq import Queue
from rq.serializers import JSONSerializer

from gateway.ledger.records import OutboxRow

QUEUE_NAME: Final = "scoregate-verify"
"""The one queue of every worker: a worker on several loses a job when it crashes (RQ waits on those with BLPOP)."""

VERIFY_JOB: Final = "replay.worker.process.verify_submissions"
"""The one function a worker runs. Named, not imported: the gateway does not know the replay room."""

JOB_TIMEOUT_S: Final = 3600
"""RQ's own limit; the real ones are the lease and the simulator's wall clock."""

JOB_KEPT_S: Final = 3600
"""How long RQ may remember a job that nobody takes or ends. The ledger asks again long before."""

QUEUED_JOBS: Final = 64
"""Most jobs that lie in RQ at once; the rest waits in the ledger, where nothing is lost or queued twice."""


class JobQueue(Protocol):
    """Where jobs go. Fails open: what it does not take stays due in the ledger."""

    async def room(self) -> int:
        """How many more jobs it takes now; 0 when it cannot be reached."""
        ...

    async def put(self, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """True if every job was queued; each is the rows of some submissions."""
        ...


class RqJobs:
    """RQ, called off the event loop since its client blocks."""

    def __init__(self, client: Redis) -> None:
        self._queue = Queue(
            QUEUE_NAME, connection=client, serializer=JSONSerializer, default_timeout=JOB_TIMEOUT_S
        )

    async def room(self) -> int:
        """How many more jobs it takes now; 0 when it cannot be reached."""
        try:
            return max(0, QUEUED_JOBS - await asyncio.to_thread(lambda: self._queue.count))
        except (RedisError, OSError):
            return 0

    async def put(self, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        """True if every job was queued; each is the rows of some submissions."""
        try:
            await asyncio.to_thread(self._put, jobs)
        except (RedisError, OSError):
            return False
        return True

    def _put(self, jobs: Sequence[Sequence[OutboxRow]]) -> None:
        for job in jobs:
            ids = [row.submission_id for row in job]
            self._queue.enqueue_call(
                VERIFY_JOB, args=(ids,), ttl=JOB_KEPT_S, result_ttl=0, failure_ttl=JOB_KEPT_S
            )


def jobs_of(rows: Sequence[OutboxRow], batch: int) -> list[list[OutboxRow]]:
    """The rows as jobs of up to `batch` submissions. One that was leased before goes alone: it may be what kills workers."""
    fresh = [row for row in rows if not row.attempt]
    batches = [fresh[at : at + batch] for at in range(0, len(fresh), batch)]
    return [[row] for row in rows if row.attempt] + batches
