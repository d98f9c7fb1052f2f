"""What tests share that break what the ledger stands on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def mortal() -> Iterator[PostgresServer]:
    """A PostgreSQL to be killed, which syncs what it commits. Who does it harm mends it."""
    with running_postgres() as server:
        yield server
