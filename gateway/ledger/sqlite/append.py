"""Puts a group of new submissions into SQLite in a handful of statements, whatever the size of the group."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

import orjson
from sqlalchemy import Table

from gateway.ledger.records import NewSubmission, Receipt, receipt_from
from gateway.ledger.schema import recordings
from gateway.ledger.submissions.append import Cells, plan_append, rows_of

CHUNKS: Final = (64, 16, 4, 1)
"""Rows per statement: few sizes, so that every statement is prepared once and found again."""

_KNOWN: Final = (
    "SELECT submission_id, board, player, score, initial_state, nonce, content_digest FROM submissions "
    "WHERE submission_id IN (SELECT value FROM json_each(?))"
)


def append_group(connection: sqlite3.Connection, group: Sequence[NewSubmission]) -> list[Receipt]:
    """One receipt per submission, in order. The caller owns the transaction; nothing is durable before it commits."""
    receipts, fresh = plan_append(group, _known(connection, group))
    if fresh:
        [first] = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM events").fetchone()
        for table, rows in rows_of(first, fresh):
            _insert(connection, table, rows)
    return receipts


def _known(connection: sqlite3.Connection, group: Sequence[NewSubmission]) -> dict[str, Receipt]:
    ids = orjson.dumps([new.submission.submission_id for new in group]).decode()
    rows = connection.execute(_KNOWN, (ids,)).fetchall()
    return {row[0]: receipt_from(row) for row in rows}


def _insert(connection: sqlite3.Connection, table: Table, rows: Sequence[Cells]) -> None:
    for chunk in _chunks(rows):
        connection.execute(_insert_statement(table, len(chunk)), tuple(chain(*chunk)))


def _chunks(rows: Sequence[Cells]) -> Iterator[Sequence[Cells]]:
    at = 0
    for size in CHUNKS:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


@lru_cache(maxsize=64)
def _insert_statement(table: Table, rows: int) -> str:
    # OR IGNORE is for recordings alone: equal bytes are stored once. Ids of the others were looked up just before.
    # The names are ours, and the values are bound. Columns are named: a migrated file has later ones at the end.
    verb = "INSERT OR IGNORE" if table is recordings else "INSERT"
    names = table.columns.keys()
    row = f"({', '.join('?' * len(names))})"
    return f"{verb} INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * rows)}"
