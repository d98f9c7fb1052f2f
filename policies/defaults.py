"""What a policy file may leave out because the rest of it tells: who writes, and what a score is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policies.vocabulary import SCORE_LIMIT

SUM_LIMIT: Final = 2**40
"""Largest score on a summing board: eight million of them still fit the 63 bits that SQL sums in."""

SPREADS_OF_RANGE: Final = 100
"""The part of what lies between a board's bounds that scores are taken to spread by at least, unless the policy says."""


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a policy with `writes`, and with `score` on a board that only servers write to.

    Nothing proves a run without a `replay` section, so that such a board is open, and a moderator decides. Players'
    scores have no bounds that anybody but the studio could know.
    """
    writes = settings.get("writes", "open" if settings.get("replay") is None else "verified")
    whole = {**settings, "writes": writes}
    if "score" not in whole and writes == "trusted":
        limit = SUM_LIMIT if settings.get("operator") == "sum" else SCORE_LIMIT
        whole["score"] = {"minimum": -limit, "maximum": limit}
    return whole
