"""Puts a group of new submissions into PostgreSQL in one statement for each table, whatever the size of the group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import BigInteger, LargeBinary, Table

from gateway.ledger.records import NewSubmission, Receipt, receipt_from
from gateway.ledger.schema import recordings
from gateway.ledger.submissions.append import Cells, plan_append, rows_of

_KNOWN: Final = (
    "SELECT submission_id, board, player, score, initial_state, nonce, content_digest FROM submissions "
    "WHERE submission_id = ANY($1::text[])"
)


async def append_group(connection: Any, group: Sequence[NewSubmission]) -> list[Receipt]:
    """One receipt per submission, in order. The caller owns the transaction, and in it the writers' lock."""
    ids = [new.submission.submission_id for new in group]
    known = {row[0]: receipt_from(tuple(row)) for row in await connection.fetch(_KNOWN, ids)}
    receipts, fresh = plan_append(group, known)
    if fresh:
        first = await connection.fetchval("SELECT coalesce(max(seq), 0) + 1 FROM events")
        for table, rows in rows_of(first, fresh):
            await _insert(connection, table, rows)
    return receipts


async def _insert(connection: Any, table: Table, rows: Sequence[Cells]) -> None:
    if rows:
        await connection.execute(_insert_statement(table), *map(list, zip(*rows, strict=True)))


@lru_cache(maxsize=8)
def _insert_statement(table: Table) -> str:
    # Equal recordings are stored once. Ids of the others were looked up just before, under the writers' lock.
    columns = table.columns.values()
    names = ", ".join(column.name for column in columns)
    arrays = ", ".join(f"${n}::{_array_of(column.type)}" for n, column in enumerate(columns, start=1))
    ignoring = " ON CONFLICT DO NOTHING" if table is recordings else ""
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays}){ignoring}"  # noqa: S608 - ours


def _array_of(kind: object) -> str:
    if isinstance(kind, BigInteger):
        return "bigint[]"
    return "bytea[]" if isinstance(kind, LargeBinary) else "text[]"
