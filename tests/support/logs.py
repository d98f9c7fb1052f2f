"""What modules of the product write into the log while a block runs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.runtime.telemetry import logger


@contextmanager
def logged(*modules: ModuleType) -> Iterator[list[MutableMapping[str, Any]]]:
    """The lines of these modules, whatever was configured before their first one."""
    with capture_logs() as lines, pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "_log", logger())
        yield lines


def lines_of(lines: list[MutableMapping[str, Any]], event: str) -> list[dict[str, Any]]:
    """The lines of one event, without its name."""
    return [
        {name: each[name] for name in each if name != "event"} for each in lines if each["event"] == event
    ]
