"""Parts that tests need and that may be missing here, but not where the tests are the gate."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skips, but fails where the tests are the gate."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}, and CI may not skip its tests")
    pytest.skip(what)
