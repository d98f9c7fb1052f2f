"""The rule under which a rollup was folded last, noted as the progress of a consumer."""

from __future__ import annotations

from typing import Final

from policies.ranking import Ranking

RULES: Final = "rollup-rule"
"""Consumer whose progress on a rollup is the number of the rule under which all of it was folded."""


def number_of(ranking: Ranking) -> int:
    """Return a ranking's rule as a number of 48 bits."""
    return int(ranking.rule, 16)
