"""What is still to be done: leases of submissions that wait for a verdict, and the outbox."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, delete, func, select, update

from gateway.ledger.queries import load_submission
from gateway.ledger.records import Lease, OutboxRow, StoredSubmission
from gateway.ledger.schema import outbox, recordings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import State

_s = submissions.c

_LEASE = Query(
    update(submissions)
    .where(
        _s.submission_id == bindparam("id"),
        _s.state == State.PENDING.value,
        _s.lease_until_ms <= bindparam("now_ms"),
    )
    .values(attempt=_s.attempt + 1, lease_until_ms=bindparam("until_ms"))
)
_RECORDING = Query(
    select(recordings.c.body, recordings.c.first_seq).where(recordings.c.digest == bindparam("digest"))
)
_DUE = Query(
    select(outbox)
    .where(outbox.c.kind == bindparam("kind"), outbox.c.due_at_ms <= bindparam("now_ms"))
    .order_by(outbox.c.due_at_ms)
    .limit(bindparam("count"))
)
_POSTPONE = Query(
    update(outbox)
    .where(outbox.c.seq == bindparam("row_seq"))
    .values(due_at_ms=bindparam("due"), tries=outbox.c.tries + 1)
)
_DONE = Query(delete(outbox).where(and_(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == "project")))
_BACKLOG = Query(select(func.count(), func.min(outbox.c.due_at_ms)).where(outbox.c.kind == "verify"))


def lease_all(submission_ids: Sequence[str], *, now_ms: int, lease_ms: int) -> Operation[list[Lease]]:
    """Leases of those submissions that are pending and in nobody's hands, each with its recording.

    A lease counts an attempt. It ends by itself after `lease_ms`; settlement then compares the attempt.
    """

    async def work(tx: Transaction) -> list[Lease]:
        leases = []
        for submission_id in submission_ids:
            if await tx.run(_LEASE, id=submission_id, now_ms=now_ms, until_ms=now_ms + lease_ms):
                found = await load_submission(tx, submission_id)
                assert found is not None
                leases.append(await _lease_of(tx, found))
        return leases

    return work


async def _lease_of(tx: Transaction, found: StoredSubmission) -> Lease:
    if found.recording_digest is None:
        return Lease(found, None, found.attempt, is_recording_reused=False)
    [[body, first_seq]] = await tx.rows(_RECORDING, digest=found.recording_digest)
    return Lease(found, body, found.attempt, is_recording_reused=first_seq < found.seq)


def due(kind: str, *, now_ms: int, count: int) -> Operation[list[OutboxRow]]:
    """Outbox rows whose time has come, the longest waiting first."""

    async def work(tx: Transaction) -> list[OutboxRow]:
        return [OutboxRow(*row) for row in await tx.rows(_DUE, kind=kind, now_ms=now_ms, count=count)]

    return work


def postpone(rows: Sequence[OutboxRow], *, until_ms: int) -> Operation[None]:
    """Makes rows due again at `until_ms`: what was handed over and is never heard of comes back."""

    async def work(tx: Transaction) -> None:
        for row in rows:
            await tx.run(_POSTPONE, row_seq=row.seq, due=until_ms)

    return work


def projected(seqs: Sequence[int]) -> Operation[None]:
    """Strikes off the `project` rows of these sequence numbers: the index has them."""

    async def work(tx: Transaction) -> None:
        for seq in seqs:
            await tx.run(_DONE, row_seq=seq)

    return work


def backlog() -> Operation[tuple[int, int | None]]:
    """How many submissions wait for a verdict, and since when the oldest is due (ms)."""

    async def work(tx: Transaction) -> tuple[int, int | None]:
        [[count, oldest]] = await tx.rows(_BACKLOG)
        return count, oldest

    return work
