"""The items of batches: the submissions that a batch was previewed with, and what became of each there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, select, tuple_, update

from gateway.ledger.schema import Int64, Text, batch_items, cases, submissions
from gateway.ledger.transaction import Operation, Query, Transaction

FIRST: Final = ("", -1)
"""The place before the first item of a batch."""

Place = tuple[str, int]
"""The board of an item, and the number of its submission: items are in this order."""


class ItemOutcome(StrEnum):
    """What became of an item: it waits, was decided and perhaps reversed, or was left as it is.

    `overtaken` and `kept` were left by the batch and by its reversal, since somebody had decided on them.
    `barred` could not be decided. `LeftOut` has the reasons.
    """

    WAITING = "waiting"
    DECIDED = "decided"
    OVERTAKEN = "overtaken"
    BARRED = "barred"
    REVERSED = "reversed"
    KEPT = "kept"


class LeftOut(StrEnum):
    """The reason for which a batch leaves an item as it is.

    It was decided on since the preview, its board has no policy, a colleague is in the case, somebody else
    has to decide, two moderators have to approve, or the ledger refuses the decision. Judged again, it was
    inconclusive, or what a person decided does not hold.
    """

    DECIDED_SINCE = "decided-since"
    NO_POLICY = "no-policy"
    CLAIMED = "claimed"
    NOT_YOURS = "not-yours"
    SECOND_APPROVAL = "second-approval"
    REFUSED = "refused"
    INCONCLUSIVE = "inconclusive"
    DECIDED_BY_PERSON = "decided-by-person"


class BatchItem(NamedTuple):
    """A submission of a batch, and what became of it there."""

    board: str
    seq: int
    submission_id: str
    player: str
    newest_event: int
    outcome: str = ItemOutcome.WAITING.value
    decided_seq: int | None = None
    why: str = ""
    detail: str = "{}"

    @property
    def place(self) -> Place:
        """Return its place among the items of its batch."""
        return (self.board, self.seq)

    @property
    def is_waiting(self) -> bool:
        """Return whether nothing has become of it yet."""
        return self.outcome == ItemOutcome.WAITING

    @property
    def is_decided(self) -> bool:
        """Return whether the batch has decided on it, and that was not reversed."""
        return self.outcome == ItemOutcome.DECIDED


class ItemScore(NamedTuple):
    """The score of an item, how it ties, and who is in its case until when (Unix ms), if anybody is."""

    seq: int
    submission_id: str
    player: str
    outcome: str
    score: int
    achieved_at_ms: int
    stats: str
    claimed_by: str | None
    claimed_until_ms: int | None

    def is_in_case_of_another(self, moderator: str, *, now_ms: int) -> bool:
        """Return whether another than this moderator is in its case."""
        is_claimed = (self.claimed_until_ms or 0) > now_ms
        return is_claimed and self.claimed_by not in ("", moderator)


_c, _i, _s = cases.c, batch_items.c, submissions.c

_place = tuple_(_i.board, _i.seq)
_behind = tuple_(bindparam("after_board", type_=Text), bindparam("after", type_=Int64))

_ITEMS = Query(
    select(*(_i[name] for name in BatchItem._fields))
    .where(_i.batch_id == bindparam("id"), _place > _behind)
    .order_by(_i.board, _i.seq)
    .limit(bindparam("count"))
)
_NEXT_BOARD = Query(
    select(_i.board)
    .where(_i.batch_id == bindparam("id"), _i.board > bindparam("after_board"))
    .order_by(_i.board)
    .limit(1)
)
_SCORES = Query(
    select(
        _i.seq,
        _i.submission_id,
        _i.player,
        _i.outcome,
        _s.score,
        _s.achieved_at_ms,
        _s.stats,
        _c.claimed_by,
        _c.claimed_until_ms,
    )
    .select_from(
        batch_items.join(submissions, _s.seq == _i.seq).outerjoin(cases, _c.submission_id == _i.submission_id)
    )
    .where(
        _i.batch_id == bindparam("id"),
        _i.board == bindparam("board"),
        _i.seq > bindparam("after", type_=Int64),
    )
    .order_by(_i.seq)
    .limit(bindparam("count"))
)
_SET_OUTCOME = Query(
    update(batch_items)
    .where(_i.batch_id == bindparam("id"), _i.board == bindparam("board"), _i.seq == bindparam("number"))
    .values(
        outcome=bindparam("to_outcome"),
        decided_seq=bindparam("to_decided_seq", type_=Int64),
        why=bindparam("to_why"),
    )
)
_REMOVE = Query(
    delete(batch_items).where(
        _i.batch_id == bindparam("id"), _i.board == bindparam("board"), _i.seq == bindparam("number")
    )
)


async def add_items(tx: Transaction, batch_id: str, items: Sequence[BatchItem]) -> None:
    """Add items to a batch."""
    rows = [(batch_id, item.board, item.seq, item.submission_id, item.player, *item[4:]) for item in items]
    if rows:
        await tx.insert(batch_items, rows)


async def new_items(
    tx: Transaction, batch_id: str, items: Sequence[BatchItem], *, most: int
) -> list[BatchItem]:
    """Return those of some items that a batch of up to `most` items does not have."""
    board, seq = min(item.place for item in items)
    known = {item.place for item in await load_items(tx, batch_id, (board, seq - 1), count=most)}
    return [item for item in items if item.place not in known]


async def remove_items(tx: Transaction, batch_id: str, items: Sequence[BatchItem]) -> None:
    """Remove items of a batch, as far as it has them."""
    await tx.run_each(_REMOVE, [_key(batch_id, item) for item in items])


async def set_outcomes(tx: Transaction, batch_id: str, items: Sequence[BatchItem]) -> None:
    """Store what became of items."""
    values = [
        _key(batch_id, item)
        | {"to_outcome": item.outcome, "to_decided_seq": item.decided_seq, "to_why": item.why}
        for item in items
    ]
    await tx.run_each(_SET_OUTCOME, values)


def _key(batch_id: str, item: BatchItem) -> dict[str, Any]:
    return {"id": batch_id, "board": item.board, "number": item.seq}


async def load_items(tx: Transaction, batch_id: str, after: Place, *, count: int) -> list[BatchItem]:
    """Return the items of a batch behind a place, in order, inside a transaction."""
    rows = await tx.rows(_ITEMS, id=batch_id, after_board=after[0], after=after[1], count=count)
    return [BatchItem(*row) for row in rows]


def items_of(batch_id: str, after: Place, *, count: int) -> Operation[list[BatchItem]]:
    """Return the items of a batch behind a place, in order."""

    async def work(tx: Transaction) -> list[BatchItem]:
        return await load_items(tx, batch_id, after, count=count)

    return work


async def next_board(tx: Transaction, batch_id: str, after: str) -> str | None:
    """Return the next board with items of a batch, None behind the last."""
    rows = await tx.rows(_NEXT_BOARD, id=batch_id, after_board=after)
    return rows[0][0] if rows else None


def scores_on(batch_id: str, board: str, *, after: int, count: int) -> Operation[list[ItemScore]]:
    """Return the scores of a batch's items on a board behind a number, in order."""

    async def work(tx: Transaction) -> list[ItemScore]:
        rows = await tx.rows(_SCORES, id=batch_id, board=board, after=after, count=count)
        return [ItemScore(*row) for row in rows]

    return work
