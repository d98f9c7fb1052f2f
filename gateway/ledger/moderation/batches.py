"""Batches: decisions on many submissions, with the items that each was previewed with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, insert, select, tuple_, update

from gateway.ledger.schema import Int64, Text, batch_items, batches, cases, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Reason

BATCH: Final = "batch"
"""The key of a batch's id in the details of its events."""

FIRST: Final = ("", -1)
"""The place before the first item of a batch."""

Place = tuple[str, int]
"""The board of an item, and the number of its submission: items are in this order."""


class BatchState(StrEnum):
    """The state of a batch."""

    FILLING = "filling"
    SELECTING = "selecting"
    PREVIEWED = "previewed"
    REFUSED = "refused"
    APPLYING = "applying"
    APPLIED = "applied"
    REVERSING = "reversing"
    REVERSED = "reversed"
    ABANDONED = "abandoned"


_PREVIEWS: Final = frozenset(
    {BatchState.FILLING, BatchState.SELECTING, BatchState.PREVIEWED, BatchState.REFUSED}
)


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


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, in the order of its table's columns; everything but texts and numbers is JSON there.

    `outcomes` counts the items that do not wait, and `left_out` those among them that were left, by reason.
    """

    batch_id: str
    actor: str
    scopes: tuple[str, ...]
    selection: Mapping[str, Any]
    action: str
    reason: Reason
    detail: Mapping[str, Any]
    state: BatchState
    version: int
    begin_seq: int
    created_at_ms: int
    changed_at_ms: int
    due_at_ms: int | None
    place: Sequence[Any] = ()
    looked_at: int = 0
    items: int = 0
    preview: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    decided_by: str = ""
    reversed_by: str = ""

    @property
    def leaves(self) -> dict[str, int]:
        """Return how many submissions the batch leaves, by reason, or is expected to before it is applied."""
        expected = Counter(self.preview.get("left_out", {}) if self.state in _PREVIEWS else {})
        return dict(expected + Counter(self.left_out))

    def with_outcomes(self, before: Sequence[BatchItem], after: Sequence[BatchItem]) -> Batch:
        """Return the batch with the counts of items that have got another outcome."""
        outcomes, left_out = Counter(self.outcomes), Counter(self.left_out)
        outcomes.subtract(item.outcome for item in before if item.outcome != ItemOutcome.WAITING)
        outcomes.update(item.outcome for item in after)
        left_out.update(item.why for item in after if item.why)
        return replace(self, outcomes=dict(+outcomes), left_out=dict(left_out))


class DueBatch(NamedTuple):
    """A batch that a steward has work with since an instant (Unix ms)."""

    batch_id: str
    due_at_ms: int
    scopes: tuple[str, ...]


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


_b, _c, _i, _s = batches.c, cases.c, batch_items.c, submissions.c
_JSON: Final = ("scopes", "selection", "detail", "place", "preview", "outcomes", "left_out")
_CHANGED: Final = (
    "state", "version", "changed_at_ms", "due_at_ms", "place", "looked_at", "items", "preview",
    "outcomes", "left_out", "decided_by", "reversed_by",
)  # fmt: skip
"""The columns that change with the work on a batch."""

_place = tuple_(_i.board, _i.seq)
_behind = tuple_(bindparam("after_board", type_=Text), bindparam("after", type_=Int64))

_BY_ID = Query(select(*batches.columns).where(_b.batch_id == bindparam("id")))
_PAGE = Query(
    select(*batches.columns)
    .where(
        tuple_(_b.begin_seq, _b.batch_id)
        < tuple_(bindparam("before", type_=Int64), bindparam("before_id", type_=Text))
    )
    .order_by(_b.begin_seq.desc(), _b.batch_id.desc())
    .limit(bindparam("count"))
)
_ADD = Query(insert(batches))
_CHANGE = Query(
    update(batches)
    .where(_b.batch_id == bindparam("id"))
    .values({name: bindparam(f"to_{name}", type_=_b[name].type) for name in _CHANGED})
)
_DUE = Query(
    select(_b.batch_id, _b.due_at_ms, _b.scopes)
    .where(
        _b.due_at_ms.is_not(None),
        _b.due_at_ms <= bindparam("now_ms"),
        tuple_(_b.due_at_ms, _b.batch_id)
        > tuple_(bindparam("after_ms", type_=Int64), bindparam("after_id", type_=Text)),
    )
    .order_by(_b.due_at_ms, _b.batch_id)
    .limit(bindparam("count"))
)
_NEXT_DUE = Query(
    select(_b.due_at_ms).where(_b.due_at_ms.is_not(None)).order_by(_b.due_at_ms, _b.batch_id).limit(1)
)
_FORGET = Query(delete(batches).where(_b.batch_id == bindparam("id")))
_ITEMS = Query(
    select(*(_i[name] for name in BatchItem._fields))
    .where(_i.batch_id == bindparam("id"), _place > _behind)
    .order_by(_i.board, _i.seq)
    .limit(bindparam("count"))
)
_UNFINISHED = Query(
    select(_b.batch_id)
    .where(_b.actor == bindparam("actor"), _b.due_at_ms.is_not(None))
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


def _batch(row: Row) -> Batch:
    values = dict(zip(batches.columns.keys(), row, strict=True))
    values |= {name: orjson.loads(values[name]) for name in _JSON}
    values |= {"scopes": tuple(values["scopes"])}
    values |= {"reason": Reason(values["reason"]), "state": BatchState(values["state"])}
    return Batch(**values)


def _cells(batch: Batch) -> dict[str, Any]:
    values = {name: getattr(batch, name) for name in batches.columns.keys()}  # noqa: SIM118 - columns
    values |= {name: orjson.dumps(values[name]).decode() for name in _JSON}
    return values | {"reason": batch.reason.value, "state": batch.state.value}


async def load_batch(tx: Transaction, batch_id: str) -> Batch | None:
    """Return a batch as it is now, or None, inside a transaction."""
    rows = await tx.rows(_BY_ID, id=batch_id)
    return _batch(rows[0]) if rows else None


def batch(batch_id: str) -> Operation[Batch | None]:
    """Return a batch as it is now, or None."""

    async def work(tx: Transaction) -> Batch | None:
        return await load_batch(tx, batch_id)

    return work


def batches_before(seq: int, batch_id: str, *, count: int) -> Operation[list[Batch]]:
    """Return batches that were made before an event, and of those at it before an id, newest first."""

    async def work(tx: Transaction) -> list[Batch]:
        return [_batch(row) for row in await tx.rows(_PAGE, before=seq, before_id=batch_id, count=count)]

    return work


async def add(tx: Transaction, new: Batch) -> None:
    """Store a new batch."""
    await tx.run(_ADD, **_cells(new))


async def change(tx: Transaction, changed: Batch) -> None:
    """Store what has changed of a batch."""
    cells = _cells(changed)
    await tx.run(_CHANGE, id=changed.batch_id, **{f"to_{name}": cells[name] for name in _CHANGED})


async def forget(tx: Transaction, batch_id: str) -> None:
    """Remove a batch that has no items any more."""
    await tx.run(_FORGET, id=batch_id)


def due_batches(after: DueBatch | None, *, now_ms: int, count: int) -> Operation[list[DueBatch]]:
    """Return batches that a steward has work with now, those first that have waited longest, behind one."""
    place: dict[str, Any] = {"after_ms": -1, "after_id": ""}
    if after is not None:
        place = {"after_ms": after.due_at_ms, "after_id": after.batch_id}

    async def work(tx: Transaction) -> list[DueBatch]:
        rows = await tx.rows(_DUE, now_ms=now_ms, **place, count=count)
        return [DueBatch(name, at_ms, tuple(orjson.loads(scopes))) for name, at_ms, scopes in rows]

    return work


def next_due() -> Operation[int | None]:
    """Return when a steward next has work with a batch (Unix ms), None if never."""

    async def work(tx: Transaction) -> int | None:
        rows = await tx.rows(_NEXT_DUE)
        return int(rows[0][0]) if rows else None

    return work


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


async def count_unfinished(tx: Transaction, actor: str, *, most: int) -> int:
    """Count an actor's batches that have work or wait to be applied, up to so many."""
    return len(await tx.rows(_UNFINISHED, actor=actor, count=most))


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
