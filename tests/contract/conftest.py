"""Ledgers on PostgreSQL, and which tests of a suite that is run again on a cluster are worth it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from tests.support.stores import PostgresStore
from tests.support.thorough import IS_THOROUGH

ORDINARILY_ON_ONE_SERVER = {
    "test_R04_the_script_never_gives_more_than_burst_and_rate",
    "test_changes_may_come_in_any_order_and_more_than_once",
    "test_I26_the_steward_repairs_and_reports_it",
    "test_a_check_names_no_more_than_its_limit",
    "test_what_a_terminal_would_obey_is_shown_escaped",
    "test_the_top_of_a_board_is_looked_at_in_every_turn",
    "test_what_is_under_way_is_no_difference",
    "test_what_is_settled_during_a_rebuild_is_in_place_after_it",
    "test_a_rebuild_that_fails_leaves_the_live_board_and_nothing_beside_it",
    "test_I10_a_rebuild_killed_before_the_swap_changes_nothing",
    "test_a_lease_that_ran_out_puts_nothing_in_place",
}


@pytest.fixture
async def postgres_store(postgres_server: PostgresServer) -> AsyncIterator[PostgresStore]:
    """A database with the tables of a ledger and without rows."""
    async with postgres_server.database() as name:
        yield PostgresStore(postgres_server, name)


@pytest.fixture
async def empty(postgres_server: PostgresServer) -> AsyncIterator[PostgresStore]:
    """A database with nothing in it."""
    async with postgres_server.database("template0") as name:
        yield PostgresStore(postgres_server, name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what would be the same again.

    That is what needs no index, another ledger, which the index does not know of, and in an ordinary run also what
    we make of answers that a cluster gives as one server does.
    """
    again = [
        item for item in items if item.path.name == "test_boards_on_cluster.py" and _is_said_already(item)
    ]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]


def _is_said_already(item: pytest.Item) -> bool:
    if "cluster" not in getattr(item, "fixturenames", ()):
        return True
    if not IS_THOROUGH and getattr(item, "originalname", "") in ORDINARILY_ON_ONE_SERVER:
        return True
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("database_server") == "postgres"
