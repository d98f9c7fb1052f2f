"""Settings that a policy file may leave out because others imply them: `writes` and the bounds of scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policies.vocabulary import SCORE_LIMIT

SUM_LIMIT: Final = 2**40
"""Largest score on a summing board. Eight million of them fit into the 63 bits in which SQL sums."""

SPREADS_OF_RANGE: Final = 100
"""How many default spread floors fit into a board's bounds."""


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with `writes`, and with `score` on a board that takes no runs."""
    # Without a `replay` section nothing proves a run, so the board is open and a moderator decides.
    is_rollup = settings.get("rollup") is not None
    unsaid = "derived" if is_rollup else "open" if settings.get("replay") is None else "verified"
    writes = settings.get("writes", unsaid)
    whole = {**settings, "writes": writes}
    # Only the studio knows the bounds of its players' scores, so only a board without runs gets default ones.
    if "score" not in whole and writes in {"trusted", "derived"}:
        limit = SUM_LIMIT if settings.get("operator") == "sum" else SCORE_LIMIT
        whole["score"] = {"minimum": -limit, "maximum": limit}
    return whole
