"""The canonical form: another program can make it from the documentation, and nothing has two of them."""

from __future__ import annotations

import hashlib
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.schema import events, submissions
from gateway.ledger.seals.leaves import (
    CHANGING,
    EVENT_COLUMNS,
    FACT_COLUMNS,
    FACTS,
    entry_of,
    record,
    row_entry,
)

VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.binary(max_size=5))
FIELDS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=5)


def sized(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def by_the_book(kind: str, fields: dict[str, Any]) -> bytes:
    """The record, written off docs/explanation/tamper-evidence.md."""
    written = sized(kind.encode())
    for name in sorted(fields, key=str.encode):
        value = fields[name]
        if value is None:
            continue
        written += sized(name.encode())
        if isinstance(value, int):
            written += b"i" + struct.pack(">q", value)
        elif isinstance(value, str):
            written += b"t" + sized(value.encode())
        else:
            written += b"b" + sized(value)
    return written


def read(written: bytes) -> tuple[str, dict[str, Any]]:
    """What a record says, read from left to right."""

    def take(count: int) -> bytes:
        nonlocal written
        taken, written = written[:count], written[count:]
        assert count == len(taken)
        return taken

    def text() -> bytes:
        return take(struct.unpack(">I", take(4))[0])

    kind, fields = text().decode(), dict[str, Any]()
    while written:
        name, tag = text().decode(), take(1)
        if tag == b"i":
            fields[name] = struct.unpack(">q", take(8))[0]
        else:
            raw = text()
            fields[name] = raw.decode() if tag == b"t" else raw
    return kind, fields


@given(FIELDS)
def test_a_record_is_what_the_documentation_says(fields: dict[str, Any]):
    """Another program makes the same bytes."""
    assert by_the_book("kind", fields) == record("kind", fields)


@given(FIELDS)
def test_M09_a_record_can_be_read_back_so_no_two_are_alike(fields: dict[str, Any]):
    """Every name and value is recovered, with its type: no other fields have these bytes."""
    stated = {name: value for name, value in fields.items() if value is not None}
    assert ("kind", stated) == read(record("kind", fields))


@pytest.mark.parametrize("value", [1.5, True, 2**63, -(2**63) - 1, "\ud800", ["a"]])
def test_what_has_no_canonical_form_is_refused(value: Any):
    """Nothing is rounded, cut or guessed."""
    with pytest.raises(ValueError, match=r"."):
        record("kind", {"a": value})


def test_M09_an_event_covers_every_column_and_the_first_one_the_facts():
    """By the schema as it is: a new column is covered without anybody thinking of it."""
    event: dict[str, Any] = {column.name: 1 if column.name == "seq" else "x" for column in events.columns}
    facts: dict[str, Any] = dict.fromkeys(FACT_COLUMNS, b"\x00")

    digest = hashlib.sha256(by_the_book("scoregate.submission.1", facts)).digest()
    assert by_the_book("scoregate.event.1", event) == entry_of(event, None)
    assert by_the_book("scoregate.event.1", event | {"facts": digest}) == entry_of(event, facts)
    assert {column.name for column in submissions.columns} == CHANGING | set(FACT_COLUMNS)
    assert FACTS not in event

    row = tuple(event[name] for name in EVENT_COLUMNS)
    assert entry_of(event, None) == row_entry(row + (None,) * len(FACT_COLUMNS))
    assert entry_of(event, facts) == row_entry(row + tuple(facts[name] for name in FACT_COLUMNS))


def test_the_documentation_names_the_facts():
    """Another program knows which columns to take."""
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "tamper-evidence.md").read_text()
    [listed] = re.findall(r"of the submission's facts: (.*?)\. It is", page, re.DOTALL)
    assert list(FACT_COLUMNS) == re.findall(r"`(\w+)`", listed)
    [changing] = re.findall(r"columns that events change\s\((.*?)\)", page, re.DOTALL)
    assert sorted(CHANGING) == sorted(re.findall(r"`(\w+)`", changing))
