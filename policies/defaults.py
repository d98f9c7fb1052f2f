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
    """Return the settings with `writes`, and with `score` on a board that only servers write to."""
    # Without a `replay` section nothing proves a run, so the board is open and a moderator decides.
    writes = settings.get("writes", "open" if settings.get("replay") is None else "verified")
    whole = {**settings, "writes": writes}
    # Only the studio knows the bounds of its players' scores, so only a trusted board gets default ones.
    if "score" not in whole and writes == "trusted":
        limit = SUM_LIMIT if settings.get("operator") == "sum" else SCORE_LIMIT
        whole["score"] = {"minimum": -limit, "maximum": limit}
    return whole
