"""A commit that PostgreSQL answers with anything but COMMIT was none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.ledger.group_commit import commit_group
from gateway.ledger.postgres.writer import PostgresWriter
from gateway.ledger.transaction import Transaction
from gateway.ledger.writes import AppendRefusals, QueuedOperation
from policies.errors import LedgerOverloaded, LedgerUnavailable


class RollingBack:
    """A connection whose transaction had failed: its COMMIT is a rollback, without an error."""

    def __init__(self) -> None:
        self.is_terminated = False

    async def execute(self, statement: str, *_: Any) -> str:
        return "ROLLBACK" if statement == "COMMIT" else statement

    def terminate(self) -> None:
        self.is_terminated = True


async def test_M04_a_commit_that_was_a_rollback_is_never_acknowledged():
    """The write is refused, and the connection, in a state that nobody knows, is closed."""

    async def nothing(_tx: Transaction) -> None:
        return None

    connection = RollingBack()
    write = QueuedOperation(nothing, asyncio.get_running_loop().create_future())
    [(_, result, error)] = await commit_group(PostgresWriter(connection), [write])
    assert (None, LedgerUnavailable, True) == (result, type(error), connection.is_terminated)
    assert "a commit was answered with ROLLBACK" in str(error)


def test_what_a_refused_submission_said_ends_with_the_next_that_is_stored():
    """Only a failing database speaks against readiness, and one that stores again does no more."""
    refusals = AppendRefusals()
    with pytest.raises(LedgerOverloaded), refusals.noted():
        raise LedgerOverloaded
    assert not refusals.are_recent
    with pytest.raises(LedgerUnavailable), refusals.noted():
        raise LedgerUnavailable("the disk is full")
    assert refusals.are_recent
    with refusals.noted():
        pass
    assert not refusals.are_recent
