"""Events as bytes: the canonical form that is hashed into the tree. Any program can make it again.

    record = text(kind), then text(name) value for each field but NULL, in the order of the names' bytes
    value  = "i" and 8 bytes (two's complement), or "t" text, or "b" bytes
    text   = bytes in UTF-8
    bytes  = length (4 bytes) and as many bytes

Numbers are big-endian. A record has names and omits NULL, so a column that is added later, and is NULL in
older rows, does not change what was sealed.

The entry of an event is the record `scoregate.event.1` of all its columns. A submission's first event has one
more field, `facts`: the SHA-256 of the record `scoregate.submission.1` of the submission's facts, which are
all its columns except those that events change. Both rows have the same sequence number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.ledger.schema import events, submissions
from gateway.ledger.seals.merkle import leaf_hash

EVENT: Final = "scoregate.event.1"
SUBMISSION: Final = "scoregate.submission.1"
FACTS: Final = "facts"
CHANGING: Final = frozenset({"state", "reason", "attempt", "lease_until_ms", "played_by"})
"""Columns of a submission that events change. Their values follow from the events.

The fact `player` is who played it: `played_by` where that is not NULL.
"""

EVENT_COLUMNS: Final = tuple(sorted(column.name for column in events.columns))
FACT_COLUMNS: Final = tuple(
    sorted(column.name for column in submissions.columns if column.name not in CHANGING)
)

_NO_FACTS: Final = (None,) * len(FACT_COLUMNS)


def record(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of named values. Raises ValueError for a value that has none."""
    names = sorted(fields)
    return _writer(kind, names)([fields[name] for name in names])


def facts_digest(facts: Mapping[str, Any]) -> bytes:
    """Return the digest of a submission's facts, which its first event carries."""
    return hashlib.sha256(record(SUBMISSION, facts)).digest()


def entry_of(event: Mapping[str, Any], facts: Mapping[str, Any] | None) -> bytes:
    """Return the entry of an event in the tree. The first event of a submission comes with its facts."""
    return record(EVENT, event if facts is None else {**event, FACTS: facts_digest(facts)})


def row_entry(row: Sequence[Any]) -> bytes:
    """Return the entry of a row: an event in the order of EVENT_COLUMNS, then FACT_COLUMNS or NULLs."""
    event, facts = row[: len(EVENT_COLUMNS)], row[len(EVENT_COLUMNS) :]
    if facts == _NO_FACTS:
        return _write_event((*event[:_FACTS_AT], None, *event[_FACTS_AT:]))
    digest = hashlib.sha256(_write_facts(facts)).digest()
    return _write_event((*event[:_FACTS_AT], digest, *event[_FACTS_AT:]))


def row_leaf(row: Sequence[Any]) -> bytes:
    """Return the hash of a row as a leaf."""
    return leaf_hash(row_entry(row))


def _sized(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


def _writer(kind: str, names: Sequence[str]) -> Callable[[Sequence[Any]], bytes]:
    """Return a function that writes the record of values in the order of `names`, which must be sorted."""
    begin, fields = _sized(kind.encode()), [_sized(name.encode()) for name in names]

    def write(values: Sequence[Any]) -> bytes:
        parts = [begin]
        for name, value in zip(fields, values, strict=True):
            if value is not None:
                parts += name, _value(value)
        return b"".join(parts)

    return write


def _value(value: object) -> bytes:
    # By exact type: True is an int in Python, and must not be written as 1.
    if type(value) is int and -(2**63) <= value < 2**63:
        return b"i" + value.to_bytes(8, "big", signed=True)
    if type(value) is str:
        return b"t" + _sized(value.encode())
    if type(value) is bytes:
        return b"b" + _sized(value)
    raise ValueError(f"a {type(value).__name__} has no canonical form here")


_EVENT_FIELDS: Final = tuple(sorted((*EVENT_COLUMNS, FACTS)))
_FACTS_AT: Final = _EVENT_FIELDS.index(FACTS)
_write_event: Final = _writer(EVENT, _EVENT_FIELDS)
_write_facts: Final = _writer(SUBMISSION, FACT_COLUMNS)
