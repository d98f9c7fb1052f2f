"""The kill switch of game builds: every change of a build's status, and the status in force.

A change is a row that is never updated. The newest change of a board's build is in force, whatever the policy
says. A build without a change has the status that its policy declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import bindparam, insert, select

from gateway.ledger.schema import build_changes
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.replaying import BuildStatus

BuildStatuses = Mapping[tuple[str, str], BuildStatus]
"""Statuses by board and build, of builds whose status was ever changed."""

_b = build_changes.c
_COLUMNS = (_b.board, _b.build, _b.status, _b.actor, _b.reason, _b.at_ms)

_STRICTNESS: Final = tuple(BuildStatus)
"""Statuses from the loosest to the strictest."""

_later = build_changes.alias("later")
_STATUSES = Query(
    select(_b.board, _b.build, _b.status).where(
        ~select(_later.c.revision)
        .where(_later.c.board == _b.board, _later.c.build == _b.build, _later.c.revision > _b.revision)
        .exists()
    )
)
_NEWEST = Query(
    select(_b.revision, _b.status)
    .where(_b.board == bindparam("of_board"), _b.build == bindparam("of_build"))
    .order_by(_b.revision.desc())
    .limit(1)
)
_OF_BOARD = Query(select(*_COLUMNS).where(_b.board == bindparam("of_board")).order_by(_b.build, _b.revision))
_ADD = Query(insert(build_changes))


class BuildChange(NamedTuple):
    """A change of a build's status: by whom, why, and when (Unix ms)."""

    board: str
    build: str
    status: BuildStatus
    actor: str
    reason: str
    at_ms: int


def build_statuses() -> Operation[BuildStatuses]:
    """Return the status in force of each build whose status was ever changed."""

    async def work(tx: Transaction) -> BuildStatuses:
        return {(board, build): BuildStatus(status) for board, build, status in await tx.rows(_STATUSES)}

    return work


def build_changes_of(board: str) -> Operation[list[BuildChange]]:
    """Return every change of a board's builds, by build, the oldest first."""

    async def work(tx: Transaction) -> list[BuildChange]:
        rows = await tx.rows(_OF_BOARD, of_board=board)
        return [
            BuildChange(row_board, build, BuildStatus(status), *actor_reason_time)
            for row_board, build, status, *actor_reason_time in rows
        ]

    return work


def set_build_status(change: BuildChange) -> Operation[bool]:
    """Set the status of a build, and return whether that changed it."""

    async def work(tx: Transaction) -> bool:
        revision, status = await _newest(tx, change)
        if status is change.status:
            return False
        await _add(tx, change, revision + 1)
        return True

    return work


def restrict_build(change: BuildChange, *, declared: BuildStatus) -> Operation[bool]:
    """Tighten the status of a build, and return whether that changed it. A stricter status stays.

    Automatic restrictions use this. `declared` is the status in the policy, in force until the first change.
    """

    async def work(tx: Transaction) -> bool:
        revision, status = await _newest(tx, change)
        if _STRICTNESS.index(status or declared) >= _STRICTNESS.index(change.status):
            return False
        await _add(tx, change, revision + 1)
        return True

    return work


async def _newest(tx: Transaction, change: BuildChange) -> tuple[int, BuildStatus | None]:
    rows = await tx.rows(_NEWEST, of_board=change.board, of_build=change.build)
    return (rows[0][0], BuildStatus(rows[0][1])) if rows else (0, None)


async def _add(tx: Transaction, change: BuildChange, revision: int) -> None:
    row = change._asdict() | {"status": change.status.value, "revision": revision}
    await tx.run(_ADD, **row)
