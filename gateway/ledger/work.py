"""What is still to be done: leases of submissions that wait for a verdict, and the outbox."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, delete, func, insert, select, update

from gateway.ledger.queries import load_submission
from gateway.ledger.records import Lease, OutboxRow, StoredRecording, StoredSubmission
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
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body, recordings.c.first_seq).where(
        recordings.c.digest == bindparam("digest")
    )
)
_IS_RECORDED = Query(select(recordings.c.first_seq).where(recordings.c.digest == bindparam("digest")))
_ELSEWHERE = Query(
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body)
    .where(recordings.c.body.is_(None), recordings.c.digest > bindparam("after"))
    .order_by(recordings.c.digest)
    .limit(bindparam("count"))
)
_DUE = Query(
    select(outbox, func.coalesce(_s.attempt, 0))
    .outerjoin_from(outbox, submissions, _s.seq == outbox.c.seq)
    .where(outbox.c.kind == bindparam("kind"), outbox.c.due_at_ms <= bindparam("now_ms"))
    .order_by(outbox.c.due_at_ms)
    .limit(bindparam("count"))
)
_POSTPONE = Query(
    update(outbox).where(outbox.c.seq == bindparam("row_seq")).values(due_at_ms=bindparam("due"))
)
_DONE = Query(delete(outbox).where(and_(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == "project")))
_BACKLOG = Query(select(func.count(), func.min(outbox.c.seq)).where(outbox.c.kind == "verify"))
_RECEIVED = Query(select(_s.received_at_ms).where(_s.seq == bindparam("row_seq")))
_PUT_PROBE = Query(insert(outbox))
_TAKE_PROBE = Query(delete(outbox).where(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == "probe"))


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
    [[*recording, first_seq]] = await tx.rows(_RECORDING, digest=found.recording_digest)
    return Lease(found, StoredRecording(*recording), found.attempt, is_recording_reused=first_seq < found.seq)


def not_recorded(digests: Sequence[bytes]) -> Operation[set[bytes]]:
    """Those of the digests that no submission names: a row is committed with the first that does, and never goes."""

    async def work(tx: Transaction) -> set[bytes]:
        return {each for each in digests if not await tx.rows(_IS_RECORDED, digest=each)}

    return work


def recordings_elsewhere(*, after: bytes, count: int) -> Operation[list[StoredRecording]]:
    """Recordings that are in the store and not in the ledger, in the order of their digests, after such a one."""

    async def work(tx: Transaction) -> list[StoredRecording]:
        return [StoredRecording(*row) for row in await tx.rows(_ELSEWHERE, after=after, count=count)]

    return work


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
    """How many submissions wait for a verdict, and when the one that waits longest was received (ms)."""

    async def work(tx: Transaction) -> tuple[int, int | None]:
        [[count, oldest]] = await tx.rows(_BACKLOG)
        found = await tx.rows(_RECEIVED, row_seq=oldest) if count else []
        return count, found[0][0] if found else None

    return work


def probe() -> Operation[None]:
    """The proof that the ledger takes writes: a row is put into the outbox and taken out again, in one commit.

    A transaction that changes nothing reaches no disk, and would not find it full. Events begin at 1, so 0 is free.
    """

    async def work(tx: Transaction) -> None:
        whose = {"submission_id": "", "board": "", "player": ""}
        await tx.run(_PUT_PROBE, seq=0, kind="probe", **whose, due_at_ms=0)
        await tx.run(_TAKE_PROBE, row_seq=0)

    return work
