"""Recordings of which only the digest has come: which are asked for, until when, and that they came.

While a recording is asked for, the work that waits for it is a `reveal` row of the outbox, due at the deadline: no worker
gets it, and no second place has to agree with it. When the recording comes it is work for a worker again, due at once.
What is settled otherwise takes the row along, as it does with all work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import and_, bindparam, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.records import Lease, OutboxRow, StoredRecording
from gateway.ledger.schema import commitments, outbox, recordings, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import State

KIND: Final = "reveal"
"""The kind of the outbox rows of what is asked for."""

_c, _o, _s = commitments.c, outbox.c, submissions.c
_IS_ASKED: Final = and_(_o.kind == literal_column(f"'{KIND}'"), _o.seq == bindparam("row_seq"))

_COMMITTED = Query(
    select(_c.size_bytes, _c.reveal_ms, _c.asked_at_ms, _c.revealed_at_ms).where(
        _c.seq == bindparam("row_seq")
    )
)
_DUE_AT = Query(select(_o.due_at_ms).where(_IS_ASKED))
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
    select(_o.submission_id, _o.board, _s.recording_digest, _c.size_bytes, _o.due_at_ms)
    .join_from(outbox, submissions, _s.seq == _o.seq)
    .join(commitments, _c.seq == _o.seq)
    .where(_o.kind == literal_column(f"'{KIND}'"), _o.player == bindparam("of_player"))
    .order_by(_o.due_at_ms, _o.seq)
    .limit(bindparam("count"))
)


class Commitment(NamedTuple):
    """What was said of a recording that was not sent: its size, and how long its sender has once it is asked for.

    `due_at_ms` is the deadline while it is asked for; `revealed_at_ms` is when it came.
    """

    size_bytes: int
    reveal_ms: int
    asked_at_ms: int | None
    revealed_at_ms: int | None
    due_at_ms: int | None


class RecordingRequest(NamedTuple):
    """A recording that a player is to send, and until when (ms)."""

    submission_id: str
    board: str
    digest: bytes
    size_bytes: int
    due_at_ms: int


def commitment(seq: int) -> Operation[Commitment | None]:
    """What a submission of this number said of its recording; None for one that said nothing, or sent it."""

    async def work(tx: Transaction) -> Commitment | None:
        for size_bytes, reveal_ms, asked_at_ms, revealed_at_ms in await tx.rows(_COMMITTED, row_seq=seq):
            return Commitment(size_bytes, reveal_ms, asked_at_ms, revealed_at_ms, await due_at(tx, seq))
        return None

    return work


async def due_at(tx: Transaction, seq: int) -> int | None:
    """Until when (ms) the recording of a submission is asked for; None where it is not."""
    rows = await tx.rows(_DUE_AT, row_seq=seq)
    return int(rows[0][0]) if rows else None


def ask(leases: Sequence[Lease], *, now_ms: int) -> Operation[frozenset[str]]:
    """Asks for the recordings of leased submissions, and gives the leases back: what waits is in nobody's hands.

    Returns the ids of those that never promised one: theirs came with them, and is lost.
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
            if await tx.run(_RELEASE, row_seq=seq, held_attempt=lease.attempt):
                asked = await tx.run(_ASK, row_seq=seq, by_ms=now_ms + reveal_ms)
                if asked:
                    await tx.run(_NOTE_ASKED, row_seq=seq, at_ms=now_ms)
        return frozenset(lost)

    return work


def reveal(seq: int, recording: StoredRecording, state: State, *, now_ms: int) -> Operation[bool]:
    """True once the ledger has a recording that is asked for, and its verification is due; False if it is not asked for.

    `state` is what its submission was in: what counts already is verified as one that was called in.
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
    """How many deadlines were put off, each by the time that its player was promised, from now on."""

    async def work(tx: Transaction) -> int:
        done = 0
        for row in rows:
            for _, reveal_ms, _, _ in await tx.rows(_COMMITTED, row_seq=row.seq):
                deadlines = {"from_ms": row.due_at_ms, "by_ms": now_ms + reveal_ms}
                done += await tx.run(_PUT_OFF, row_seq=row.seq, **deadlines)
        return done

    return work


def recording_requests(player: str, *, count: int) -> Operation[list[RecordingRequest]]:
    """What a player is asked for, the next deadline first."""

    async def work(tx: Transaction) -> list[RecordingRequest]:
        return [RecordingRequest(*row) for row in await tx.rows(_OF_PLAYER, of_player=player, count=count)]

    return work
