"""Audits of verified runs: how far they were drawn, which are to be done, and what the first verdict said of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.builds import BuildChange, restrict_build
from gateway.ledger.derived.log import move, position
from gateway.ledger.queries import head, history_of, load_submission
from gateway.ledger.records import Lease
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.ledger.work import lease_of
from policies.replaying import BuildStatus
from policies.vocabulary import Reason, State

KIND: Final = "audit"
"""The kind of the outbox rows; each has the number of its submission, whose own row went with the verdict."""

DAY: Final = "audit-day"
"""Whose progress is the day, as a proleptic Gregorian ordinal, on which a board's sample was drawn last."""

DRAWN: Final = "audit"
"""Whose progress is the event up to which it was drawn."""

_e, _o, _s = events.c, outbox.c, submissions.c

_VERIFIED = Query(
    select(_e.submission_id).where(
        _e.seq > bindparam("after"),
        _e.seq <= bindparam("upto"),
        _e.board == bindparam("board"),
        _e.to_state == State.PROMOTED.value,
        _e.reason == Reason.VERIFIED.value,
    )
)
_add = upsert(outbox)
_ADD = Query(_add.on_conflict_do_nothing(index_elements=["seq"]))
_WAITING = Query(select(_o.seq).where(_o.seq == bindparam("row_seq"), _o.kind == KIND))
_LEASE = Query(
    update(submissions)
    .where(_s.seq == bindparam("row_seq"), _s.lease_until_ms <= bindparam("now_ms"))
    .values(attempt=_s.attempt + 1, lease_until_ms=bindparam("until_ms"))
)
_RELEASE = Query(update(submissions).where(_s.seq == bindparam("row_seq")).values(lease_until_ms=0))
_DONE = Query(delete(outbox).where(_o.seq == bindparam("row_seq"), _o.kind == KIND))


def drawn_until(board: str) -> Operation[tuple[int | None, int, int]]:
    """The day of a board's last draw (None before the first), the event up to which it went, and the newest event."""

    async def work(tx: Transaction) -> tuple[int | None, int, int]:
        return await position(DAY, board)(tx), await position(DRAWN, board)(tx) or 0, await head()(tx)

    return work


def verified_between(board: str, *, after: int, upto: int) -> Operation[list[str]]:
    """The submissions of a board that a replay promoted by the events of this range."""

    async def work(tx: Transaction) -> list[str]:
        rows = await tx.rows(_VERIFIED, board=board, after=after, upto=upto)
        return [row[0] for row in rows]

    return work


def draw(board: str, submission_ids: Sequence[str], *, day: int, upto: int, now_ms: int) -> Operation[int]:
    """How many audits were noted for a day; 0 if another steward has drawn for it."""

    async def work(tx: Transaction) -> int:
        held = await position(DAY, board)(tx)
        if held is not None and held >= day:
            return 0
        noted = 0
        for submission_id in submission_ids:
            found = await load_submission(tx, submission_id)
            if found:
                whose = {"submission_id": submission_id, "board": board, "player": found.player}
                noted += await tx.run(_ADD, seq=found.seq, kind=KIND, **whose, due_at_ms=now_ms, priority=0)
        await move(DAY, day, board)(tx)
        await move(DRAWN, upto, board)(tx)
        return noted

    return work


def lease(submission_ids: Sequence[str], *, now_ms: int, lease_ms: int) -> Operation[list[Lease]]:
    """Leases of those submissions that wait for an audit and are in nobody's hands. Each counts as an attempt."""

    async def work(tx: Transaction) -> list[Lease]:
        leases = []
        for submission_id in submission_ids:
            found = await load_submission(tx, submission_id)
            if not found or not await tx.rows(_WAITING, row_seq=found.seq):
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
