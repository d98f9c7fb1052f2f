"""Audits of verified runs: the progress of each board's draw, the audits to do, and their leases."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.derived.log import move, position
from gateway.ledger.judgement.builds import BuildChange, restrict_build
from gateway.ledger.queries import history_of, load_submission, newest_seq
from gateway.ledger.records import VerificationLease
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.submissions.work import leases_of
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.replaying import BuildStatus
from policies.vocabulary import Reason, State

KIND: Final = "audit"
"""The kind of the outbox rows. Each has the number of its submission, whose own row went with the verdict."""

DAY: Final = "audit-day"
"""Consumer whose progress is the day of a board's newest draw, as a proleptic Gregorian ordinal."""

DRAWN: Final = "audit"
"""Consumer whose progress is the event up to which all draws are noted."""

UPTO: Final = "audit-upto"
"""Consumer whose progress is the last event of the newest draw."""

SEED: Final = "audit-seed"
"""Consumer whose progress is the seed of the newest draw. A steward that continues it draws the same."""

NOTED: Final = "audit-noted"
"""Consumer whose progress is how many of the newest draw's sample are noted."""

_e, _o, _s = events.c, outbox.c, submissions.c

_VERIFIED = Query(
    select(_e.seq, _s.seq, _e.submission_id, _e.player)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(
        _e.seq > bindparam("after"),
        _e.seq <= bindparam("upto"),
        _e.board == bindparam("board"),
        # Written out: with bound values the partial index would not be used.
        _e.to_state == literal_column(f"'{State.PROMOTED.value}'"),
        _e.reason == literal_column(f"'{Reason.VERIFIED.value}'"),
    )
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_add = upsert(outbox)
_ADD = Query(_add.on_conflict_do_nothing(index_elements=["seq"]))
_HANDED_OUT = Query(
    select(func.count())
    .select_from(outbox)
    .where(_o.kind == KIND, _o.priority == 0, _o.due_at_ms > bindparam("now_ms"), _o.handed_out == 1)
)
_WAITING = Query(select(_o.seq).where(_o.seq == bindparam("row_seq"), _o.kind == KIND))
_LEASE = Query(
    update(submissions)
    .where(_s.seq == bindparam("row_seq"), _s.lease_until_ms <= bindparam("now_ms"))
    .values(attempt=_s.attempt + 1, lease_until_ms=bindparam("until_ms"))
)
_RELEASE = Query(update(submissions).where(_s.seq == bindparam("row_seq")).values(lease_until_ms=0))
_DONE = Query(delete(outbox).where(_o.seq == bindparam("row_seq"), _o.kind == KIND))


class VerifiedSubmission(NamedTuple):
    """A submission that a replay promoted."""

    seq: int
    submission_id: str
    player: str


class Draw(NamedTuple):
    """The draw of a board's day (None before the first) from (`after`, `upto`]; `noted` of it are noted."""

    board: str
    day: int | None
    after: int
    upto: int
    seed: int
    noted: int

    @property
    def is_done(self) -> bool:
        """Return whether the whole draw is noted."""
        return self.after >= self.upto


def draw_of(board: str) -> Operation[Draw]:
    """Return the newest draw of a board."""

    async def work(tx: Transaction) -> Draw:
        day = await position(DAY, board)(tx)
        return Draw(
            board, day, *[await position(part, board)(tx) or 0 for part in (DRAWN, UPTO, SEED, NOTED)]
        )

    return work


def claim(board: str, *, day: int, seed: int, first_after: int | None = None) -> Operation[bool]:
    """Begin the draw of a day, up to the newest event.

    False if it has begun, or if the previous one has not ended. The first draw of a board draws from what
    came after `first_after`; without it, from nothing.
    """

    async def work(tx: Transaction) -> bool:
        before = await draw_of(board)(tx)
        if not before.is_done or (before.day is not None and before.day >= day):
            return False
        upto = await newest_seq()(tx)
        first = upto if first_after is None else min(first_after, upto)
        after = before.after if before.day is not None else first
        for part, value in ((DAY, day), (DRAWN, after), (UPTO, upto), (SEED, seed), (NOTED, 0)):
            await move(part, value, board)(tx)
        return True

    return work


def verified_between(
    board: str, *, after: int, upto: int, count: int
) -> Operation[list[tuple[int, VerifiedSubmission]]]:
    """Return the first promotions by replays on a board in (`after`, `upto`], each after its event."""

    async def work(tx: Transaction) -> list[tuple[int, VerifiedSubmission]]:
        rows = await tx.rows(_VERIFIED, board=board, after=after, upto=upto, count=count)
        return [(seq, VerifiedSubmission(*submission)) for seq, *submission in rows]

    return work


def note(
    draw: Draw, some: Sequence[VerifiedSubmission], *, is_last: bool, now_ms: int
) -> Operation[int | None]:
    """Note a part of a draw's sample, and return how many are new; None if another steward was faster."""

    async def work(tx: Transaction) -> int | None:
        if draw != await draw_of(draw.board)(tx):
            return None
        audit = {"board": draw.board, "kind": KIND, "due_at_ms": now_ms, "priority": 0, "handed_out": 0}
        noted = sum([await tx.run(_ADD, **submission._asdict(), **audit) for submission in some])
        await move(NOTED, draw.noted + len(some), draw.board)(tx)
        if is_last:
            await move(DRAWN, draw.upto, draw.board)(tx)
        return noted

    return work


def handed_out(*, now_ms: int) -> Operation[int]:
    """Count the audits that workers may have now: handed out, and not due again."""

    async def work(tx: Transaction) -> int:
        [[count]] = await tx.rows(_HANDED_OUT, now_ms=now_ms)
        return int(count)

    return work


def lease(
    submission_ids: Sequence[str], *, boards: Container[str] | None = None, now_ms: int, lease_ms: int
) -> Operation[list[VerificationLease]]:
    """Lease those of the submissions that wait for an audit and that nobody has leased.

    Each counts as an attempt.

    Submissions on none of `boards` (None: on any) are skipped.
    """

    async def work(tx: Transaction) -> list[VerificationLease]:
        leases = []
        for submission_id in submission_ids:
            submission = await load_submission(tx, submission_id)
            if (
                not submission
                or not (boards is None or submission.board in boards)
                or not await tx.rows(_WAITING, row_seq=submission.seq)
            ):
                continue
            if await tx.run(_LEASE, row_seq=submission.seq, now_ms=now_ms, until_ms=now_ms + lease_ms):
                leased = await load_submission(tx, submission_id)  # with the attempt that counts this lease
                assert leased is not None
                leases += await leases_of(tx, [leased])
        return leases

    return work


def fingerprint_in(submission_id: str) -> Operation[Mapping[str, Any] | None]:
    """Return the fingerprint (`replay.fingerprint`) of the newest verdict's simulation, or None."""

    async def work(tx: Transaction) -> Mapping[str, Any] | None:
        simulated = [event["detail"].get("simulated") for event in await history_of(submission_id)(tx)]
        fingerprints: list[Mapping[str, Any]] = [fingerprint for fingerprint in simulated if fingerprint]
        return fingerprints[-1] if fingerprints else None

    return work


def finish(
    seqs: Sequence[int], changes: Sequence[tuple[BuildChange, BuildStatus]]
) -> Operation[set[tuple[str, str]]]:
    """Delete finished audits, restrict builds, and return the (board, build) that were restricted.

    Each change comes with the status that the policy declares.
    """

    async def work(tx: Transaction) -> set[tuple[str, str]]:
        for seq in seqs:
            await tx.run(_DONE, row_seq=seq)
            await tx.run(_RELEASE, row_seq=seq)
        return {
            (change.board, change.build)
            for change, declared in changes
            if await restrict_build(change, declared=declared)(tx)
        }

    return work
