"""Seals: ranges of events under a signed Merkle root, each chained to the one before."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import and_, bindparam, func, literal_column, or_, select
from sqlalchemy.dialects.postgresql import insert  # its ON CONFLICT compiles for SQLite too

from gateway.ledger.ledger import LedgerReads
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import events, seals, submissions
from gateway.ledger.seals.leaves import EVENT_COLUMNS, FACT_COLUMNS, record, row_leaf
from gateway.ledger.seals.merkle import DIGEST_BYTES, root_of
from gateway.ledger.seals.signing_keys import PublicKeys, SealKey
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import State

KIND: Final = "scoregate.seal.1"
NOTHING: Final = bytes(DIGEST_BYTES)
"""The digest that the first seal has as that of the one before it."""

LOWEST: Final = -(2**63)
"""The lowest sequence number, so that rows inserted before the first event are checked too."""

PAGE: Final = 1000
"""Events, or seals without their leaves, of one read."""

Digest = Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Number = Annotated[int, Field(ge=LOWEST, lt=2**63)]


class Seal(BaseModel):
    """A signed Merkle root over events `first_seq` to `last_seq`. `previous` is the digest of the last seal.

    As JSON it is one line of an export, a checkpoint. Bytes are lower-case hexadecimal there.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_bytes="hex", val_json_bytes="hex"
    )

    first_seq: Number
    last_seq: Number
    root: Digest
    previous: Digest
    created_at_ms: Number
    key_id: Annotated[str, Field(max_length=64)]
    signature: Annotated[bytes, Field(min_length=64, max_length=64)]

    @property
    def size(self) -> int:
        """Return how many events it seals."""
        return self.last_seq - self.first_seq + 1

    @property
    def message(self) -> bytes:
        """Return the bytes that are signed: the canonical record of everything but the signature."""
        return record(KIND, self.model_dump(exclude={"signature"}))

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of its message, which the next seal has as `previous`."""
        return hashlib.sha256(self.message).digest()

    def is_signed_by_any(self, keys: PublicKeys) -> bool:
        """Return whether one of the keys signed it."""
        return keys.is_signed(self.key_id, self.message, self.signature)

    def __str__(self) -> str:
        return f"the seal of events {self.first_seq} to {self.last_seq}"


class Leaf(NamedTuple):
    """An event's hash in the tree. `lacks_facts` tells that it begins a submission whose row is missing."""

    seq: int
    at_ms: int
    digest: bytes
    lacks_facts: bool


class Unsealed(NamedTuple):
    """Events after the newest seal: how many, and since when they wait (Unix ms)."""

    events: int
    since_ms: int | None


def seal_of(key: SealKey, after: Seal | None, leaves: Sequence[bytes], *, at_ms: int) -> Seal:
    """Return the signed seal of the events that follow those of `after`, by the hashes of their leaves."""
    first_seq = after.last_seq + 1 if after else 1
    facts = {
        "first_seq": first_seq,
        "last_seq": first_seq + len(leaves) - 1,
        "root": root_of(leaves),
        "previous": after.digest if after else NOTHING,
        "created_at_ms": at_ms,
        "key_id": key.key_id,
    }
    return Seal.model_validate({**facts, "signature": key.sign(record(KIND, facts))})


_event_columns = [events.c[name] for name in EVENT_COLUMNS]
_PLAYED_BY: Final = func.coalesce(submissions.c.played_by, submissions.c.player).label("player")
_facts = select(
    *_event_columns,
    *(_PLAYED_BY if name == "player" else submissions.c[name] for name in FACT_COLUMNS),
)
_is_first_of = submissions.c.seq == events.c.seq
_rows = _facts.select_from(events.outerjoin(submissions, _is_first_of))
"""Events with the facts of the submissions that they begin. Both rows have the same sequence number."""

_SEQ_AT: Final = EVENT_COLUMNS.index("seq")
_AT_MS_AT: Final = EVENT_COLUMNS.index("at_ms")
_FROM_AT: Final = EVENT_COLUMNS.index("from_state")
_FACT_AT: Final = len(EVENT_COLUMNS) + FACT_COLUMNS.index("seq")

_ordered = (
    _facts.select_from(
        events.outerjoin(submissions, and_(_is_first_of, submissions.c.seq >= bindparam("begin")))
    )
    .order_by(events.c.seq, events.c.at_ms)
    .limit(bindparam("count"))
)
"""The beginning bounds both tables: PostgreSQL merges them, and would walk there from the first submission.
"""
_FIRST_ROWS = Query(_ordered.where(events.c.seq >= bindparam("begin")))
_NEXT_ROWS = Query(
    _ordered.where(
        events.c.seq >= bindparam("begin"),
        or_(events.c.seq > bindparam("begin"), events.c.at_ms > bindparam("after_ms")),
    )
)
"""Time orders equal sequence numbers: PostgreSQL cannot make them unique over partitions, and none may hide.
"""
_ROWS_OF = Query(_rows.where(events.c.submission_id == bindparam("submission_id")).order_by(events.c.seq))
_LIFE_OF = Query(
    _rows.where(events.c.board == bindparam("board"), events.c.player == literal_column("''")).order_by(
        events.c.seq
    )
)
_SEAL_COLUMNS = [seals.c[name] for name in Seal.model_fields]
_seals = select(*_SEAL_COLUMNS)
_LAST = Query(_seals.order_by(seals.c.first_seq.desc()).limit(1))
_SEALS = Query(
    _seals.where(seals.c.first_seq > bindparam("after")).order_by(seals.c.first_seq).limit(bindparam("count"))
)
_SEAL_AT = Query(
    _seals.where(seals.c.first_seq <= bindparam("at_seq")).order_by(seals.c.first_seq.desc()).limit(1)
)
_LEAVES = Query(select(seals.c.leaves).where(seals.c.first_seq == bindparam("first")))
_ADD = Query(insert(seals).on_conflict_do_nothing())
_SEALED_TO = Query(select(seals.c.last_seq).order_by(seals.c.first_seq.desc()).limit(1))
_SINCE = Query(
    select(events.c.at_ms).where(events.c.seq > bindparam("after")).order_by(events.c.seq).limit(1)
)


def newest_seal() -> Operation[Seal | None]:
    """Return the newest seal, or None."""

    async def work(tx: Transaction) -> Seal | None:
        rows = await tx.rows(_LAST)
        return _seal(rows[0]) if rows else None

    return work


def seal_at(seq: int) -> Operation[Seal | None]:
    """Return the seal that an event is under, or None."""

    async def work(tx: Transaction) -> Seal | None:
        rows = await tx.rows(_SEAL_AT, at_seq=seq)
        seal = _seal(rows[0]) if rows else None
        return seal if seal and seal.last_seq >= seq else None

    return work


def add(seal: Seal, leaves: Sequence[bytes]) -> Operation[bool]:
    """Add a seal. False, and nothing changes, if another steward was first."""

    async def work(tx: Transaction) -> bool:
        sealed_to = await _sealed_to(tx)
        if sealed_to != seal.first_seq - 1:
            return False
        return await tx.run(_ADD, **seal.model_dump(), leaves=b"".join(leaves)) == 1

    return work


def sealed_leaves(seal: Seal) -> Operation[list[bytes] | None]:
    """Return the hashes of the leaves as they were sealed, or None if they do not lead to the root."""

    async def work(tx: Transaction) -> list[bytes] | None:
        [[digests]] = await tx.rows(_LEAVES, first=seal.first_seq)
        if len(digests) != seal.size * DIGEST_BYTES:
            return None
        leaves = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
        return leaves if root_of(leaves) == seal.root else None

    return work


def unsealed() -> Operation[Unsealed]:
    """Return what is not sealed yet."""

    async def work(tx: Transaction) -> Unsealed:
        newest = await newest_seq()(tx)
        sealed_to = await _sealed_to(tx)
        rows = await tx.rows(_SINCE, after=sealed_to)
        return Unsealed(max(0, newest - sealed_to), rows[0][0] if rows else None)

    return work


async def _sealed_to(tx: Transaction) -> int:
    rows = await tx.rows(_SEALED_TO)
    return int(rows[0][0]) if rows else 0


EventRow = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""An event's columns, and the facts of the submission that it begins."""


def event_rows(submission_id: str) -> Operation[list[EventRow]]:
    """Return every event of a submission, oldest first, the first with the submission's facts."""

    async def work(tx: Transaction) -> list[EventRow]:
        return [_named(row) for row in await tx.rows(_ROWS_OF, submission_id=submission_id)]

    return work


def life_rows(board: str) -> Operation[list[EventRow]]:
    """Return every event of the life of a family's board, oldest first."""

    async def work(tx: Transaction) -> list[EventRow]:
        return [_named(row) for row in await tx.rows(_LIFE_OF, board=board)]

    return work


async def leaves_from(ledger: LedgerReads, begin: int) -> AsyncIterator[Leaf]:
    """Yield the leaves of all events from sequence number `begin` on, with one page in memory at a time."""
    after_ms: int | None = None
    while True:
        page = await ledger.read(_leaves_page(begin, after_ms, PAGE))
        for leaf in page:
            yield leaf
        if len(page) < PAGE:
            return
        begin, after_ms = page[-1].seq, page[-1].at_ms


async def seals_after(ledger: LedgerReads, after: int = LOWEST) -> AsyncIterator[Seal]:
    """Yield the seals whose first event comes after `after`, with one page in memory at a time."""
    while True:
        page = await ledger.read(_seals_page(after, PAGE))
        for seal in page:
            yield seal
        if len(page) < PAGE:
            return
        after = page[-1].first_seq


def _leaves_page(begin: int, after_ms: int | None, count: int) -> Operation[list[Leaf]]:
    """Return leaves from a sequence number on.

    With `after_ms`, leaves of that number itself come after that time.
    """

    async def work(tx: Transaction) -> list[Leaf]:
        if after_ms is None:
            rows = await tx.rows(_FIRST_ROWS, begin=begin, count=count)
        else:
            rows = await tx.rows(_NEXT_ROWS, begin=begin, after_ms=after_ms, count=count)
        return [_leaf(row) for row in rows]

    return work


def _seals_page(after: int, count: int) -> Operation[list[Seal]]:
    async def work(tx: Transaction) -> list[Seal]:
        return [_seal(row) for row in await tx.rows(_SEALS, after=after, count=count)]

    return work


def _leaf(row: Row) -> Leaf:
    is_first = row[_FROM_AT] == State.RECEIVED.value
    return Leaf(row[_SEQ_AT], row[_AT_MS_AT], row_leaf(row), lacks_facts=is_first and row[_FACT_AT] is None)


def _named(row: Row) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    event = dict(zip(EVENT_COLUMNS, row, strict=False))
    facts = dict(zip(FACT_COLUMNS, row[len(EVENT_COLUMNS) :], strict=True))
    return event, facts if facts["seq"] is not None else None


def _seal(row: Row) -> Seal:
    # Not validated: a row may have been tampered with, and then its signature says so.
    return Seal.model_construct(**dict(zip(Seal.model_fields, row, strict=True)))
