"""Leases of submissions that wait for a verdict, and the outbox of work that is still to be done."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    not_,
    or_,
    select,
    union_all,
    update,
)

from gateway.ledger.queries import SUBMISSION_COLUMNS
from gateway.ledger.records import OutboxRow, StoredRecording, StoredSubmission, VerificationLease
from gateway.ledger.schema import boards, outbox, recordings, submissions
from gateway.ledger.submission_rows import submission_from
from gateway.ledger.transaction import OneOf, Operation, Query, Transaction
from policies.vocabulary import Reason, State
from validators.verification_priority import HARMS, UNASSESSED, URGENT

PROJECT_AFTER_MS: Final = 2_000
"""Time for the projection after a commit. After it, the steward projects the change."""

_s = submissions.c


def is_of_kind(kind: Any) -> ColumnElement[bool]:
    """Return the condition that an outbox row, which is found by its number, is of a kind.

    SQLite would search by the kind alone, and look at all rows of it, if an index served the condition.
    """
    condition: ColumnElement[bool] = outbox.c.kind + literal_column("''") == kind
    return condition


_LEASE = Query(
    update(submissions)
    .where(
        OneOf(_s.submission_id, "submission_ids"),
        or_(
            _s.state == State.PENDING.value,
            and_(_s.state == State.PROMOTED.value, _s.reason == Reason.SAMPLED.value),
        ),
        _s.lease_until_ms <= bindparam("now_ms"),
        not_(exists().where(outbox.c.seq == _s.seq, outbox.c.kind == "reveal")),
    )
    .values(attempt=_s.attempt + 1, lease_until_ms=bindparam("until_ms"))
    .returning(*SUBMISSION_COLUMNS)
)
_NOT_TRIED = Query(
    update(submissions).where(OneOf(_s.seq, "row_seqs")).values(attempt=_s.attempt - 1, lease_until_ms=0)
)
_RECORDINGS = Query(
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body).where(
        recordings.c.digest.in_(select(_s.recording_digest).where(OneOf(_s.seq, "row_seqs")))
    )
)
_IS_RECORDED = Query(select(recordings.c.first_seq).where(recordings.c.digest == bindparam("digest")))
_IS_ASSET = Query(select(boards.c.board).where(boards.c.asset == bindparam("digest")).limit(1))
_ELSEWHERE = Query(
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body)
    .where(recordings.c.body.is_(None), recordings.c.digest > bindparam("after"))
    .order_by(recordings.c.digest)
    .limit(bindparam("count"))
)
_OUTBOX_COLUMNS = [column for column in outbox.columns if column.name != "handed_out"]
_DUE = Query(
    select(*_OUTBOX_COLUMNS, func.coalesce(_s.attempt, 0), outbox.c.handed_out)
    .outerjoin_from(outbox, submissions, _s.seq == outbox.c.seq)
    .where(
        outbox.c.kind == bindparam("kind"),
        outbox.c.priority == bindparam("harm"),
        outbox.c.due_at_ms <= bindparam("now_ms"),
    )
    .order_by(outbox.c.due_at_ms)
    .limit(bindparam("count"))
)
_FOR_WORKERS: Final = (
    *(("verify", harm) for harm in (UNASSESSED, *HARMS)),
    ("recheck", URGENT),
    ("audit", 0),
)
"""The kinds of rows that workers do, with their priorities: each pair is one look-up in the index."""

_firsts = [
    select(func.min(outbox.c.due_at_ms).label("due_at_ms")).where(
        outbox.c.kind == literal_column(f"'{kind}'"), outbox.c.priority == literal_column(str(harm))
    )
    for kind, harm in _FOR_WORKERS
]
_NEXT_FOR_WORKERS = Query(select(func.min(union_all(*_firsts).subquery().c.due_at_ms)))
_NEXT_OF_KIND = Query(
    select(func.min(outbox.c.due_at_ms)).where(
        outbox.c.kind == bindparam("kind"), outbox.c.priority == literal_column("0")
    )
)
_SET_PRIORITY = Query(
    update(outbox)
    .where(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == "verify")
    .values(priority=bindparam("harm"))
)
_later = update(outbox).where(OneOf(outbox.c.seq, "row_seqs"), is_of_kind(bindparam("row_kind")))
_POSTPONE = Query(_later.values(due_at_ms=bindparam("due")))
_HAND_OUT = Query(_later.values(due_at_ms=bindparam("due"), handed_out=1))
_DONE = Query(delete(outbox).where(OneOf(outbox.c.seq, "row_seqs"), is_of_kind("project")))
_BACKLOG = Query(
    select(outbox.c.priority, func.count(), func.min(outbox.c.seq))
    .where(outbox.c.kind == "verify")
    .group_by(outbox.c.priority)
)
_RECEIVED = Query(select(_s.received_at_ms).where(_s.seq == bindparam("row_seq")))
_PUT_PROBE = Query(insert(outbox))
_TAKE_PROBE = Query(delete(outbox).where(outbox.c.seq == bindparam("row_seq"), outbox.c.kind == "probe"))


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of submissions that wait for a verdict, and when the oldest was received (Unix ms)."""

    count: int
    since_ms: int | None


def lease_all(
    submission_ids: Sequence[str], *, boards: Container[str] | None = None, now_ms: int, lease_ms: int
) -> Operation[list[VerificationLease]]:
    """Lease those of the submissions that wait for a verdict or count unverified, and that nobody has leased.

    Each lease counts as an attempt, and ends by itself after `lease_ms`; settlement compares the attempt. A
    submission whose recording is requested is skipped, and so is one on none of `boards` (None: on any): a
    worker may learn of a board later than the edges.
    """

    async def work(tx: Transaction) -> list[VerificationLease]:
        lasts = {"now_ms": now_ms, "until_ms": now_ms + lease_ms}
        rows = await tx.rows(_LEASE, submission_ids=list(submission_ids), **lasts)
        leased = {submission.submission_id: submission for submission in map(submission_from, rows)}
        foreign = {each.seq for each in leased.values() if boards is not None and each.board not in boards}
        if foreign:
            await tx.run(_NOT_TRIED, row_seqs=list(foreign))
        in_order = (leased[each] for each in dict.fromkeys(submission_ids) if each in leased)
        return await leases_of(tx, [each for each in in_order if each.seq not in foreign])

    return work


async def leases_of(tx: Transaction, leased: Sequence[StoredSubmission]) -> list[VerificationLease]:
    """Return the leases of submissions that were just leased, with the recordings that have come."""
    recorded = [submission.seq for submission in leased if submission.recording_digest is not None]
    rows = await tx.rows(_RECORDINGS, row_seqs=recorded) if recorded else []
    stored = {row[0]: StoredRecording(*row) for row in rows}
    return [
        VerificationLease(each, stored.get(each.recording_digest or b""), each.attempt) for each in leased
    ]


def unknown_recordings(digests: Sequence[bytes]) -> Operation[set[bytes]]:
    """Return those of the digests that no submission named: a recording has a row since its first one."""
    return _unnamed(_IS_RECORDED, digests)


def unknown_assets(digests: Sequence[bytes]) -> Operation[set[bytes]]:
    """Return those of the digests that no board names: it names its asset until its name is opened anew."""
    return _unnamed(_IS_ASSET, digests)


def _unnamed(is_named: Query, digests: Sequence[bytes]) -> Operation[set[bytes]]:
    async def work(tx: Transaction) -> set[bytes]:
        return {digest for digest in digests if not await tx.rows(is_named, digest=digest)}

    return work


def recordings_in_store(*, after: bytes, count: int) -> Operation[list[StoredRecording]]:
    """Return recordings whose bytes are in the store of recordings, by digest, after digest `after`."""

    async def work(tx: Transaction) -> list[StoredRecording]:
        return [StoredRecording(*row) for row in await tx.rows(_ELSEWHERE, after=after, count=count)]

    return work


def due(kind: str, *, now_ms: int, count: int, harms: Sequence[int] = (0,)) -> Operation[list[OutboxRow]]:
    """Return outbox rows that are due, up to `count` of each harm, the longest waiting first."""

    async def work(tx: Transaction) -> list[OutboxRow]:
        rows: list[OutboxRow] = []
        for harm in harms:
            for *columns, is_returned in await tx.rows(
                _DUE, kind=kind, now_ms=now_ms, count=count, harm=harm
            ):
                fields: Any = (*columns, bool(is_returned))
                rows.append(OutboxRow(*fields))
        return rows

    return work


async def next_due_for_workers(tx: Transaction) -> int | None:
    """Return when the first thing is due that workers do, assessed or not; None if there is nothing."""
    [[due_at_ms]] = await tx.rows(_NEXT_FOR_WORKERS)
    return None if due_at_ms is None else int(due_at_ms)


def next_due(kind: str) -> Operation[int | None]:
    """Return when the first row of a kind that harms nobody is due, None if there is none."""

    async def work(tx: Transaction) -> int | None:
        [[due_at_ms]] = await tx.rows(_NEXT_OF_KIND, kind=kind)
        return None if due_at_ms is None else int(due_at_ms)

    return work


def due_to_verify(*, now_ms: int, count: int) -> Operation[list[OutboxRow]]:
    """Return submissions whose verification is due and whose harm is known, up to `count` of each harm."""
    return due("verify", now_ms=now_ms, count=count, harms=HARMS)


def due_to_assess(*, now_ms: int, count: int) -> Operation[list[OutboxRow]]:
    """Return submissions whose harm is not assessed yet, the longest waiting first."""
    return due("verify", now_ms=now_ms, count=count, harms=(UNASSESSED,))


def prioritise(harms: Mapping[int, int]) -> Operation[None]:
    """Store the harm of waiting submissions, by their sequence numbers."""

    async def work(tx: Transaction) -> None:
        for seq, harm in harms.items():
            await tx.run(_SET_PRIORITY, row_seq=seq, harm=harm)

    return work


def postpone(rows: Sequence[OutboxRow], *, until_ms: int) -> Operation[None]:
    """Make rows due again at `until_ms`, as if they had not been due before."""
    return _again(_POSTPONE, rows, until_ms)


def hand_out(rows: Sequence[OutboxRow], *, until_ms: int) -> Operation[None]:
    """Note that workers may have these rows. Without an answer they are due again at `until_ms`.

    A row that has become work of another kind stays as it is: a worker may be faster than this.
    """
    return _again(_HAND_OUT, rows, until_ms)


def _again(query: Query, rows: Sequence[OutboxRow], until_ms: int) -> Operation[None]:
    async def work(tx: Transaction) -> None:
        for kind in sorted({row.kind for row in rows}):
            seqs = [row.seq for row in rows if row.kind == kind]
            await tx.run(query, row_seqs=seqs, row_kind=kind, due=until_ms)

    return work


def strike_projected(seqs: Sequence[int]) -> Operation[None]:
    """Delete the `project` rows of these sequence numbers: the index has them."""

    async def work(tx: Transaction) -> None:
        await tx.run(_DONE, row_seqs=list(seqs))

    return work


def backlog() -> Operation[dict[bool, Backlog]]:
    """Return the backlogs of submissions that wait for a verdict: the urgent one under True."""

    async def work(tx: Transaction) -> dict[bool, Backlog]:
        backlogs = dict.fromkeys((False, True), Backlog(0, None))
        for harm, count, oldest in await tx.rows(_BACKLOG):
            [[since_ms]] = await tx.rows(_RECEIVED, row_seq=oldest)
            other = backlogs[harm >= URGENT]
            since_ms = since_ms if other.since_ms is None else min(since_ms, other.since_ms)
            backlogs[harm >= URGENT] = Backlog(other.count + count, since_ms)
        return backlogs

    return work


def probe() -> Operation[None]:
    """Check that the ledger takes writes: put a row into the outbox and take it out again, in one commit.

    A transaction that changes nothing reaches no disk, and would not find it full. Events begin at 1, so 0 is
    free.
    """

    async def work(tx: Transaction) -> None:
        nobody = {"submission_id": "", "board": "", "player": ""}
        await tx.run(_PUT_PROBE, seq=0, kind="probe", **nobody, due_at_ms=0, priority=0, handed_out=0)
        await tx.run(_TAKE_PROBE, row_seq=0)

    return work
