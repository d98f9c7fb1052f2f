"""The expiry of recordings: boards keep those of refused and revoked runs for a set time.

A consumer follows the log (`gateway.ledger.derived.log`) up to the events that are old enough, so each event
that ends a run is looked at once. Expiry deletes the row of a recording. The bytes of an inline recording go
with it; the collector removes others from the store. `recording_expiries` keeps digest and size, so that the
ledger still knows every digest it had. The database itself refuses to delete a recording that a run needs
(`recordings_no_delete`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.derived.log import move, position, slice_of_log
from gateway.ledger.schema import cases, events, outbox, recording_expiries, recordings, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Reason, State

ENDED: Final = frozenset({State.REJECTED, State.SUPERSEDED, State.REVOKED})
"""States in which a run does not count and waits for nothing."""

MOST_USES: Final = 100
"""Most runs with one recording that are checked. A recording with more runs is kept."""

UNDO_DAYS: Final = 30
"""Days for which a moderator's decision can be undone, and the recording of what it ended is kept."""

UNDO_MS: Final = UNDO_DAYS * 86_400_000

CONSUMER: Final = "expiry-"
"""Prefix of the consumers whose progress is the event up to which recordings expired.

A number of days follows.
"""

_c, _e, _o, _r, _s, _x = cases.c, events.c, outbox.c, recordings.c, submissions.c, recording_expiries.c

_LOG = Query(
    select(_e.seq, _e.board, _e.to_state, _e.at_ms, _s.recording_digest)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(_e.seq > bindparam("after"), _e.seq <= bindparam("upto"))
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_USES = Query(
    select(
        _s.board,
        _s.state,
        _s.reason,
        select(func.max(_e.at_ms)).where(_e.submission_id == _s.submission_id).scalar_subquery(),
        select(func.max(_e.at_ms))
        .where(_e.submission_id == _s.submission_id, _e.actor.like(literal_column("'moderator:%'")))
        .scalar_subquery(),
        select(func.count()).select_from(outbox).where(_o.seq == _s.seq).scalar_subquery(),
        select(func.count()).select_from(cases).where(_c.submission_id == _s.submission_id).scalar_subquery(),
    )
    .where(_s.recording_digest == bindparam("digest"))
    .limit(MOST_USES + 1)
)
_KEPT = Query(select(_r.size_bytes, _r.first_seq).where(_r.digest == bindparam("digest")))
_put = upsert(recording_expiries)
_NOTE = Query(
    _put.on_conflict_do_update(
        index_elements=["digest"],
        set_={"expired_at_ms": _put.excluded.expired_at_ms, "first_seq": _put.excluded.first_seq},
    )
)
_REMOVE = Query(delete(recordings).where(_r.digest == bindparam("digest")))
_EXPIRED_AT = Query(
    select(_x.expired_at_ms)
    .outerjoin_from(recording_expiries, recordings, _r.digest == _x.digest)
    .where(_x.digest == bindparam("digest"), _r.digest.is_(None))
)


Retention = Callable[[str], int | None]
"""Returns how long a board keeps recordings (ms), None for ever."""


class Ending(NamedTuple):
    """An event of the log, and the recording of its submission. Times are Unix milliseconds."""

    seq: int
    board: str
    to_state: State
    at_ms: int
    digest: bytes | None


def endings_after(seq: int, *, count: int) -> Operation[tuple[list[Ending], int, bool]]:
    """Return the next events of submissions after a sequence number.

    With them are the last event passed over, and whether it is the newest one.
    """

    async def work(tx: Transaction) -> tuple[list[Ending], int, bool]:
        rows, upto, is_newest = await slice_of_log(tx, _LOG, seq, count)
        endings = [
            Ending(event_seq, board, State(state), at_ms, digest)
            for event_seq, board, state, at_ms, digest in rows
        ]
        return endings, upto, is_newest

    return work


def end_recordings(
    consumer: str, span: tuple[int, int], passed: Sequence[Ending], kept_ms: Retention, *, now_ms: int
) -> Operation[int]:
    """Delete the recordings that expire with these events, and return how many.

    The consumer's position moves from the first to the second event of `span`. `kept_ms` is how long each
    board keeps recordings. A board that it does not name keeps them for ever.
    """
    after, upto = span
    digests = {
        event.digest: None for event in passed if event.to_state in ENDED and kept_ms(event.board) is not None
    }

    async def work(tx: Transaction) -> int:
        if (await position(consumer)(tx) or 0) != after:
            return 0  # another steward was faster
        done = 0
        for digest in digests:
            if digest is not None and await _is_over(tx, digest, kept_ms, now_ms):
                done += await _end(tx, digest, now_ms)
        await move(consumer, upto)(tx)
        return done

    return work


async def _is_over(tx: Transaction, digest: bytes, kept_ms: Retention, now_ms: int) -> bool:
    """Return whether no run needs this recording: each has ended long enough ago and has no work left."""
    uses = await tx.rows(_USES, digest=digest)
    return len(uses) <= MOST_USES and all(_has_ended(use, kept_ms, now_ms) for use in uses)


def _has_ended(use: Row, kept_ms: Retention, now_ms: int) -> bool:
    board, state, reason, newest_at_ms, moderated_at_ms, work_left, is_appealed = use
    life_ms = kept_ms(board)
    return (
        State(state) in ENDED
        and reason != Reason.BANNED  # it counts again once the ban is over
        and not work_left
        and not is_appealed
        and life_ms is not None
        and newest_at_ms is not None
        and int(newest_at_ms) <= now_ms - life_ms
        and (moderated_at_ms is None or int(moderated_at_ms) <= now_ms - UNDO_MS)
    )


async def _end(tx: Transaction, digest: bytes, now_ms: int) -> int:
    for size_bytes, first_seq in await tx.rows(_KEPT, digest=digest):
        await tx.run(_NOTE, digest=digest, size_bytes=size_bytes, first_seq=first_seq, expired_at_ms=now_ms)
        return await tx.run(_REMOVE, digest=digest)
    return 0


def expired_at(digest: bytes) -> Operation[int | None]:
    """Return when a recording expired (Unix ms). None for one that is still there or never was."""

    async def work(tx: Transaction) -> int | None:
        rows = await tx.rows(_EXPIRED_AT, digest=digest)
        return int(rows[0][0]) if rows else None

    return work
