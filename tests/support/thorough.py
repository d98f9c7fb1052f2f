"""How much a run of the suite tries. `SUITE=thorough` in the environment has it search longer, and try more of a kind."""

from __future__ import annotations

import os
from typing import Any, Final

IS_THOROUGH: Final = os.environ.get("SUITE") == "thorough"


def examples(count: int) -> int:
    """How many examples a search tries that tries this many in an ordinary run."""
    return 10 * count if IS_THOROUGH else count


def seeds(count: int, *, ordinarily: int = 1) -> range:
    """The seeds of histories that are drawn by chance: the first of so many in an ordinary run."""
    return range(1, (count if IS_THOROUGH else ordinarily) + 1)


def thoroughly(*more: Any) -> tuple[Any, ...]:
    """What a thorough run tries besides; nothing in an ordinary run."""
    return more if IS_THOROUGH else ()
