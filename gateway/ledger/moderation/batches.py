"""Batches: decisions on many submissions. Their items are in `batch_items`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, insert, select, tuple_, update

from gateway.ledger.moderation.batch_items import BatchItem, ItemOutcome
from gateway.ledger.schema import Int64, Text, batches
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Reason

BATCH: Final = "batch"
"""The key of a batch's id in the details of its events."""


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
    place: tuple[Any, ...] = ()
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


_b = batches.c
_JSON: Final = ("scopes", "selection", "detail", "place", "preview", "outcomes", "left_out")
_CHANGED: Final = (
    "state", "version", "changed_at_ms", "due_at_ms", "place", "looked_at", "items", "preview",
    "outcomes", "left_out", "decided_by", "reversed_by",
)  # fmt: skip
"""The columns that change with the work on a batch."""

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
_UNFINISHED = Query(
    select(_b.batch_id)
    .where(_b.actor == bindparam("actor"), _b.due_at_ms.is_not(None))
    .limit(bindparam("count"))
)


def _batch(row: Row) -> Batch:
    values = dict(zip(batches.columns.keys(), row, strict=True))
    values |= {name: orjson.loads(values[name]) for name in _JSON}
    values |= {name: tuple(values[name]) for name in ("scopes", "place")}
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


async def count_unfinished(tx: Transaction, actor: str, *, most: int) -> int:
    """Count an actor's batches that have work or wait to be applied, up to so many."""
    return len(await tx.rows(_UNFINISHED, actor=actor, count=most))
