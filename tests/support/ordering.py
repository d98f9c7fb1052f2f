"""The order in which the ledger's statements return rows, tested in tables without a key or an index.

Asking about each row alone gives its part of an answer; asking about all of them then gives their order.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from gateway.ledger.schema import metadata
from tests.support import strangers
from tests.support.strangers import HOME, MOODS, WITHOUT, Values

ROWS: Final = 12

STEADY: Final = frozenset(
    {
        "kind",
        "state",
        "from_state",
        "to_state",
        "stage",
        "reason",
        "actor",
        "rule",
        "series",
        "is_joined",
        "priority",
    }
)
"""Columns that statements look at: they are the same in every row."""


def order_of(name: str, keys: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the order of a statement's rows, by number, and that of these columns (`-`: descending).

    For a statement that returns one row, each is only the first of them.
    """
    query = strangers.asked()[name]
    chance = random.Random(name)
    fixed = {
        strangers.COLUMNS.get(each.column, each.column) for each in strangers.binds(query) if each.how == "="
    }
    fixed |= set(re.findall(r'(\w+)"? (?:=|!=|IS) (?![\w"]+\.)', query.sqlite))
    rows = _rows(chance, fixed | STEADY, [each.strip("-") for each in keys])
    due = sorted(range(len(rows)), key=lambda at: _place(rows[at], keys))
    for mood in MOODS:
        parts = [_answer([row], name, mood) for row in rows]
        if all(len(each) == 1 for each in parts) and len({each[0] for each in parts}) == len(rows):
            lying = chance.sample(rows, len(rows))
            given = [parts.index([each]) for each in _answer(lying, name, mood)]
            return given, due[: len(given)]
    raise AssertionError(f"{name} gives no rows that are told apart")


def _place(row: Values, keys: Sequence[str]) -> list[Any]:
    return [_turned(row[key.strip("-")]) if key.startswith("-") else row[key] for key in keys]


def _turned(value: Any) -> Any:
    return -value if isinstance(value, int) else [-ord(each) for each in value]


def _rows(chance: random.Random, fixed: set[str], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows that are often equal in one of the columns of the order, but never in another or all."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number in chance.sample(range(strangers.LOW + 1, strangers.HIGH), ROWS):
        row: dict[str, Any] = {}
        for name in sorted(strangers.TABLE_OF.keys() - (fixed - set(keys))):
            shared = chance.choice((20, 40, 60, 80)) if name in keys[:-1] and name != "seq" else number
            row[name] = _told(strangers.value_in(strangers.TABLE_OF[name].name, name, HOME), shared)
        found.setdefault(tuple(row[key] for key in keys), row)
    return list(found.values())


def _told(own: Any, number: int) -> Any:
    """A number in the form of a column; what is nothing stays so."""
    if own is None or isinstance(own, int):
        return own and number
    return f"x{number}".encode() if isinstance(own, bytes) else f"x{number}"


def _answer(rows: Sequence[Values], name: str, mood: Values) -> list[str]:
    """What a statement says of these rows, which lie as they come."""
    query = strangers.asked()[name]
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in (metadata.tables[each] for each in strangers.tables_of(query)):
            columns = ", ".join(f'"{column.name}"' for column in table.columns)
            connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
            there: set[Any] = set()
            for row in rows:
                given: Mapping[str, Any] = {**HOME, **mood, **row}
                cells = [strangers.value_in(table.name, each.name, given) for each in table.columns]
                key = tuple(cell for cell, each in zip(cells, table.columns, strict=True) if each.primary_key)
                if key not in there and given.get(WITHOUT) != table.name:
                    there.add(key)
                    connection.execute(
                        f'INSERT INTO "{table.name}" VALUES ({", ".join("?" * len(cells))})', cells
                    )
        values = query.values({each.name: strangers.value_of(each, mood) for each in strangers.binds(query)})
        return [repr(row) for row in connection.execute(query.sqlite, dict(values)).fetchall()]
