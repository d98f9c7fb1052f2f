"""Recordings that came as digests only: which are requested, until when, and their arrival.

While a recording is requested, the work that waits for it is a `reveal` row of the outbox, due at the
deadline. So no worker gets it, and no second table has to agree with it. When the recording comes, the row is
work for a worker again, due at once. Settling the submission otherwise deletes the row, as with all work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.players.merges import merges_in_force
from gateway.ledger.records import OutboxRow, StoredRecording, VerificationLease
from gateway.ledger.schema import commitments, outbox, recordings, submissions
from gateway.ledger.transaction import OneOf, Operation, Query, Transaction
from policies.vocabulary import State

KIND: Final = "reveal"
"""The kind of the outbox rows of requested recordings."""

_c, _o, _s = commitments.c, outbox.c, submissions.c
_IS_ASKED: Final = and_(_o.kind == literal_column(f"'{KIND}'"), _o.seq == bindparam("row_seq"))

_COMMITTED = Query(
    select(_c.size_bytes, _c.reveal_ms, _c.asked_at_ms, _c.revealed_at_ms).where(
        _c.seq == bindparam("row_seq")
    )
)
_DUE_AT = Query(
    select(_o.seq, _o.due_at_ms).where(
        OneOf(_o.seq, "row_seqs"), _o.kind + literal_column("''") == literal_column(f"'{KIND}'")
    )
)
_ASK = Query(
    update(outbox).where(_o.seq == bindparam("row_seq")).values(kind=KIND, due_at_ms=bindparam("by_ms"))
)
_NOTE_ASKED = Query(
    update(commitments)
    .where(_c.seq == bindparam("row_seq"))
    .values(asked_at_ms=func.coalesce(_c.asked_at_ms, bindparam("at_ms", type_=_c.asked_at_ms.type)))
)
_RELEASE = Query(
    update(submissions)
    .where(_s.seq == bindparam("row_seq"), _s.attempt == bindparam("held_attempt"))
    .values(lease_until_ms=0)
)
_TAKEN_BACK_UP = Query(
    update(outbox)
    .where(_IS_ASKED)
    .values(kind=bindparam("row_kind"), due_at_ms=bindparam("due"), handed_out=0)
)
_NOTE_REVEALED = Query(
    update(commitments).where(_c.seq == bindparam("row_seq")).values(revealed_at_ms=bindparam("at_ms"))
)
_KEEP = Query(upsert(recordings).on_conflict_do_nothing(index_elements=["digest"]))
_PUT_OFF = Query(
    update(outbox).where(_IS_ASKED, _o.due_at_ms == bindparam("from_ms")).values(due_at_ms=bindparam("by_ms"))
)
_OF_PLAYER = Query(
    select(_o.submission_id, _o.board, _s.recording_digest, _c.size_bytes, _o.due_at_ms, _s.played_by)
    .join_from(outbox, submissions, _s.seq == _o.seq)
    .join(commitments, _c.seq == _o.seq)
    .where(_o.kind == literal_column(f"'{KIND}'"), _o.player == bindparam("of_player"))
    .order_by(_o.due_at_ms, _o.seq)
    .limit(bindparam("count"))
)


class Commitment(NamedTuple):
    """A recording that its sender has yet to send: its size, and how long its sender has after a request.

    `due_at_ms` is the deadline of a request under way, `revealed_at_ms` when the recording came.
    """

    size_bytes: int
    reveal_ms: int
    asked_at_ms: int | None
    revealed_at_ms: int | None
    due_at_ms: int | None


class RecordingRequest(NamedTuple):
    """A request to a player to send a recording until `due_at_ms`."""

    submission_id: str
    board: str
    digest: bytes
    size_bytes: int
    due_at_ms: int


def commitment(seq: int) -> Operation[Commitment | None]:
    """Return the commitment of submission `seq`, or None if it sent its recording or has none."""

    async def work(tx: Transaction) -> Commitment | None:
        for size_bytes, reveal_ms, asked_at_ms, revealed_at_ms in await tx.rows(_COMMITTED, row_seq=seq):
            return Commitment(size_bytes, reveal_ms, asked_at_ms, revealed_at_ms, await due_at(tx, seq))
        return None

    return work


async def due_at(tx: Transaction, seq: int) -> int | None:
    """Return the deadline (Unix ms) of a requested recording, or None if it is not requested."""
    return (await deadlines(tx, [seq])).get(seq)


async def deadlines(tx: Transaction, seqs: Sequence[int]) -> dict[int, int]:
    """Return the deadline (Unix ms) of each of these submissions whose recording is requested."""
    return dict(await tx.rows(_DUE_AT, row_seqs=seqs))


def ask(leases: Sequence[VerificationLease], *, now_ms: int) -> Operation[frozenset[str]]:
    """Request the recordings of leased submissions, and release the leases.

    Return the ids of submissions without a commitment: their recordings came with them, and are lost.
    """

    async def work(tx: Transaction) -> frozenset[str]:
        lost = set()
        for lease in leases:
            seq = lease.submission.seq
            rows = await tx.rows(_COMMITTED, row_seq=seq)
            if not rows:
                lost.add(lease.submission.submission_id)
                continue
            [[_, reveal_ms, _, _]] = rows
            is_ours = await tx.run(_RELEASE, row_seq=seq, held_attempt=lease.attempt)
            if is_ours and await tx.run(_ASK, row_seq=seq, by_ms=now_ms + reveal_ms):
                await tx.run(_NOTE_ASKED, row_seq=seq, at_ms=now_ms)
        return frozenset(lost)

    return work


def reveal(seq: int, recording: StoredRecording, state: State, *, now_ms: int) -> Operation[bool]:
    """Store a requested recording and make its verification due. False if it is not requested.

    `state` is that of its submission: one that counts already is verified as a recheck.
    """
    kind = "recheck" if state is State.PROMOTED else "verify"

    async def work(tx: Transaction) -> bool:
        if not await tx.run(_TAKEN_BACK_UP, row_seq=seq, row_kind=kind, due=now_ms):
            return False
        await tx.run(_KEEP, **recording._asdict(), first_seq=seq)
        await tx.run(_NOTE_REVEALED, row_seq=seq, at_ms=now_ms)
        return True

    return work


def put_off(rows: Sequence[OutboxRow], *, now_ms: int) -> Operation[int]:
    """Postpone deadlines to the time that their players were promised, from now, and return how many."""

    async def work(tx: Transaction) -> int:
        done = 0
        for row in rows:
            for _, reveal_ms, _, _ in await tx.rows(_COMMITTED, row_seq=row.seq):
                deadlines = {"from_ms": row.due_at_ms, "by_ms": now_ms + reveal_ms}
                done += await tx.run(_PUT_OFF, row_seq=row.seq, **deadlines)
        return done

    return work


def recording_requests(player: str, *, count: int) -> Operation[list[RecordingRequest]]:
    """Return the recordings that a player has to send, the next deadline first.

    Who was merged into another player has those of the runs that they played.
    """

    async def work(tx: Transaction) -> list[RecordingRequest]:
        rows = await tx.rows(_OF_PLAYER, of_player=player, count=count)
        if merge := (await merges_in_force(tx, [player])).get(player):
            others = await tx.rows(_OF_PLAYER, of_player=merge.target, count=count)
            rows = [*rows, *(row for row in others if row[-1] == player)]
        return [RecordingRequest(*row[:-1]) for row in rows]

    return work
