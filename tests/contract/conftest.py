"""Which tests of a suite that is run again on a cluster are worth it."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what would be the same again.

    That is what needs no index, and another ledger, which the index does not know of.
    """
    again = [
        item for item in items if item.path.name == "test_boards_on_cluster.py" and _is_said_already(item)
    ]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]


def _is_said_already(item: pytest.Item) -> bool:
    if "cluster" not in getattr(item, "fixturenames", ()):
        return True
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("database_server") == "postgres"
