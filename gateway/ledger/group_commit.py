"""Group commit: waiting writes are stored in one commit, in the same steps on SQLite and PostgreSQL.

An error of one write undoes that write alone. A fault of the database undoes the whole group.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from sqlalchemy import Table

from gateway.ledger.moderation.cases import appended_cases, open_cases
from gateway.ledger.players.addresses import note_addresses
from gateway.ledger.players.late_runs import attribute_appended
from gateway.ledger.records import NewSubmission, Receipt, receipt_from
from gateway.ledger.submissions.append import plan_append, rows_of
from gateway.ledger.transaction import Cells, Operation, Row
from gateway.ledger.writes import QueuedAppend, QueuedOperation, QueuedWrite, WriteOutcome
from gateway.runtime.failpoints import Point, reach
from policies.errors import LedgerUnavailable

T = TypeVar("T")


class WritingConnection(Protocol):
    """A connection that writes groups.

    On SQLite its coroutines never suspend, so that one thread can drive them.
    """

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Commit what the block does, or undo all of it. Writing transactions of all processes take turns."""
        ...

    async def execute(self, *statements: str) -> None:
        """Execute statements that bind nothing, in order."""
        ...

    async def receipts(self, submission_ids: Sequence[str]) -> Sequence[Row]:
        """Return the columns of a receipt for each of these submissions that is stored."""
        ...

    async def next_seq(self) -> int:
        """Return the sequence number of the next event."""
        ...

    async def insert(self, table: Table, rows: Sequence[Cells]) -> None:
        """Insert rows, and skip recordings that are stored already."""
        ...

    async def perform(self, operation: Operation[T]) -> T:
        """Return the result of an operation on the open transaction."""
        ...

    def is_fault(self, error: Exception) -> bool:
        """Return whether the database failed, and not the write that it was given."""
        ...

    def refusal(self, error: Exception) -> LedgerUnavailable:
        """Return what to tell a group after a fault. A connection in an unknown state is closed."""
        ...


async def commit_group(connection: WritingConnection, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    """Commit a group, and return each write with its result.

    After a fault all writes of the group have failed.

    If a write cannot be stored, the group is committed again one by one, so that this write fails alone.
    """
    try:
        return await _commit_at_once(connection, group)
    except Exception as error:  # noqa: BLE001 - it belongs to the callers, and the writer must live on
        if connection.is_fault(error):
            refusal = connection.refusal(error)
            return [(write, None, refusal) for write in group]
        if len(group) == 1:
            return [(group[0], None, error)]
    return [outcome for write in group for outcome in await commit_group(connection, [write])]


async def _commit_at_once(connection: WritingConnection, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    async with connection.transaction():
        appended = await _append_all(connection, group)
        performed = [
            await _perform(connection, write) for write in group if isinstance(write, QueuedOperation)
        ]
    if appended:
        reach(Point.AFTER_APPEND)
    return [*appended, *performed]


async def _append_all(connection: WritingConnection, group: Sequence[QueuedWrite]) -> list[WriteOutcome]:
    appends = [write for write in group if isinstance(write, QueuedAppend)]
    if not appends:
        return []
    receipts = await append_group(connection, [write.new for write in appends])
    reach(Point.INSIDE_APPEND)
    return [(write, receipt, None) for write, receipt in zip(appends, receipts, strict=True)]


async def append_group(connection: WritingConnection, group: Sequence[NewSubmission]) -> list[Receipt]:
    """Append submissions to the open transaction, and return one receipt for each, in order."""
    rows = await connection.receipts([new.submission.submission_id for new in group])
    receipts, fresh = plan_append(group, {row[0]: receipt_from(row) for row in rows})
    if fresh:
        first_seq = await connection.next_seq()
        for table, cells in rows_of(first_seq, fresh):
            await connection.insert(table, cells)
        if held := appended_cases(first_seq, fresh):
            await connection.perform(open_cases(held))
        if any(new.address for new in fresh):
            await connection.perform(note_addresses(fresh))
        await connection.perform(attribute_appended(fresh))
    return receipts


async def _perform(connection: WritingConnection, write: QueuedOperation) -> WriteOutcome:
    await connection.execute("SAVEPOINT operation")
    try:
        result = await connection.perform(write.work)
    except Exception as error:
        if connection.is_fault(error):
            raise  # the whole group is refused
        await connection.execute("ROLLBACK TO operation", "RELEASE operation")
        return write, None, error
    await connection.execute("RELEASE operation")
    return write, result, None
