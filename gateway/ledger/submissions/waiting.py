"""What waits in the outbox, counted in one bounded read, for people who look at a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import bindparam, case, func, select

from gateway.ledger.schema import events, outbox
from gateway.ledger.transaction import Query, Transaction
from validators.verification_priority import URGENT

ROWS_LIMIT: Final = 10_000
"""Rows of the outbox that are read, the oldest first."""

_o = outbox.c
_read = select(_o.kind, _o.priority, _o.seq).order_by(_o.seq).limit(bindparam("count")).subquery()
_is_urgent = case((_read.c.priority >= URGENT, 1), else_=0)
_WAITING = Query(
    select(_read.c.kind, _is_urgent, func.count(), func.min(_read.c.seq)).group_by(_read.c.kind, _is_urgent)
)
_WRITTEN = Query(select(events.c.at_ms).where(events.c.seq == bindparam("row_seq")))


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """Work of a kind that waits. `since_ms` is when the event of the oldest was written (shared Unix ms)."""

    kind: str
    is_urgent: bool
    count: int
    since_ms: int | None


class OutboxContents(NamedTuple):
    """What waits in the outbox, by kind. With `is_cut` only the oldest ROWS_LIMIT rows were counted."""

    work: Sequence[WaitingWork]
    is_cut: bool


async def outbox_contents(tx: Transaction) -> OutboxContents:
    """Return what waits in the outbox."""
    work = []
    for kind, is_urgent, count, oldest in await tx.rows(_WAITING, count=ROWS_LIMIT):
        rows = await tx.rows(_WRITTEN, row_seq=oldest)
        work.append(WaitingWork(kind, bool(is_urgent), count, rows[0][0] if rows else None))
    return OutboxContents(work, sum(row.count for row in work) >= ROWS_LIMIT)
