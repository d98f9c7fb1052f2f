"""What a command changes of its process is put back, where one is run in the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Every command makes what it makes private."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
