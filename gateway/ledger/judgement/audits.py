"""Audits of verified runs: how far they were drawn, which are to be done, and what the first verdict said of each."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.derived.log import move, position
from gateway.ledger.judgement.builds import BuildChange, restrict_build
from gateway.ledger.queries import history_of, load_submission, newest_seq
from gateway.ledger.records import Lease
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.submissions.work import lease_of
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.replaying import BuildStatus
from policies.vocabulary import Reason, State

KIND: Final = "audit"
"""The kind of the outbox rows; each has the number of its submission, whose own row went with the verdict."""

DAY: Final = "audit-day"
"""Whose progress is the day, as a proleptic Gregorian ordinal, on which a board's sample was drawn last."""

DRAWN: Final = "audit"
"""Whose progress is the event up to which everything was drawn and noted."""

UPTO: Final = "audit-upto"
"""Whose progress is the event up to which the draw goes that was begun last."""

SEED: Final = "audit-seed"
"""Whose progress is the seed of the numbers of that draw: who goes on with it draws the same."""

NOTED: Final = "audit-noted"
"""Whose progress is how many of its sample are noted."""

_e, _o, _s = events.c, outbox.c, submissions.c

_VERIFIED = Query(
    select(_s.seq, _e.submission_id, _e.player)
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .where(
        _e.seq > bindparam("after"),
        _e.seq <= bindparam("upto"),
        _e.board == bindparam("board"),
        _e.to_state == State.PROMOTED.value,
        _e.reason == Reason.VERIFIED.value,
    )
    .order_by(_e.seq)
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
    """The draw of a board's day (None before the first): of the events in (`after`, `upto`], by `seed`, so many noted."""

    board: str
    day: int | None
    after: int
    upto: int
    seed: int
    noted: int

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left to be noted."""
        return self.after >= self.upto


def draw_of(board: str) -> Operation[Draw]:
    """How far the draws of a board are."""

    async def work(tx: Transaction) -> Draw:
        day = await position(DAY, board)(tx)
        return Draw(
            board, day, *[await position(each, board)(tx) or 0 for each in (DRAWN, UPTO, SEED, NOTED)]
        )

    return work


def claim(board: str, *, day: int, seed: int) -> Operation[bool]:
    """Begins the draw of a day, of all up to the newest event; False if it has begun, or the one before has not ended.

    The first of all has nothing to draw from.
    """

    async def work(tx: Transaction) -> bool:
        before = await draw_of(board)(tx)
        if not before.is_done or (before.day is not None and before.day >= day):
            return False
        upto = await newest_seq()(tx)
        after = before.after if before.day is not None else upto
        for what, value in ((DAY, day), (DRAWN, after), (UPTO, upto), (SEED, seed), (NOTED, 0)):
            await move(what, value, board)(tx)
        return True

    return work


def verified_between(board: str, *, after: int, upto: int) -> Operation[list[VerifiedSubmission]]:
    """The submissions of a board that a replay promoted by the events of this range, in their order."""

    async def work(tx: Transaction) -> list[VerifiedSubmission]:
        return [
            VerifiedSubmission(*row) for row in await tx.rows(_VERIFIED, board=board, after=after, upto=upto)
        ]

    return work


def note(
    draw: Draw, some: Sequence[VerifiedSubmission], *, is_last: bool, now_ms: int
) -> Operation[int | None]:
    """How many audits of a draw were noted, which then is that much further; None if another steward has got it there."""

    async def work(tx: Transaction) -> int | None:
        if draw != await draw_of(draw.board)(tx):
            return None
        audit = {"board": draw.board, "kind": KIND, "due_at_ms": now_ms, "priority": 0, "handed_out": 0}
        noted = sum([await tx.run(_ADD, **each._asdict(), **audit) for each in some])
        await move(NOTED, draw.noted + len(some), draw.board)(tx)
        if is_last:
            await move(DRAWN, draw.upto, draw.board)(tx)
        return noted

    return work


def handed_out(*, now_ms: int) -> Operation[int]:
    """How many audits workers may have now: what was handed out and is not due again."""

    async def work(tx: Transaction) -> int:
        [[count]] = await tx.rows(_HANDED_OUT, now_ms=now_ms)
        return int(count)

    return work


def lease(
    submission_ids: Sequence[str], *, boards: Container[str] | None = None, now_ms: int, lease_ms: int
) -> Operation[list[Lease]]:
    """Leases of those submissions that wait for an audit and are in nobody's hands. Each counts as an attempt.

    What is of none of `boards` (None: all are) is left as it is.
    """

    async def work(tx: Transaction) -> list[Lease]:
        leases = []
        for submission_id in submission_ids:
            found = await load_submission(tx, submission_id)
            if (
                not found
                or not (boards is None or found.board in boards)
                or not await tx.rows(_WAITING, row_seq=found.seq)
            ):
                continue
            if await tx.run(_LEASE, row_seq=found.seq, now_ms=now_ms, until_ms=now_ms + lease_ms):
                taken = await load_submission(tx, submission_id)
                assert taken is not None
                leases.append(await lease_of(tx, taken))
        return leases

    return work


def fingerprint_in(submission_id: str) -> Operation[Mapping[str, Any] | None]:
    """What the simulation of the newest verdict came to (`replay.fingerprint`); None where no event says so."""

    async def work(tx: Transaction) -> Mapping[str, Any] | None:
        found = [event["detail"].get("simulated") for event in await history_of(submission_id)(tx)]
        known: list[Mapping[str, Any]] = [each for each in found if each]
        return known[-1] if known else None

    return work


def finish(
    seqs: Sequence[int], changes: Sequence[tuple[BuildChange, BuildStatus]]
) -> Operation[set[tuple[str, str]]]:
    """The builds (board, build) that were restricted: each change comes with the status in the policy. Strikes off audits."""

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
