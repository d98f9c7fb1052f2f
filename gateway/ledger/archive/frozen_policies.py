"""The policies of archived windows: fields that decide ranks are stored with each, others are today's."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.ledger.archive.windows import ArchivedWindow
from policies.model import Policy
from policies.ranking import Ranking

DECIDING: Final = frozenset(
    {"operator", "order", "decimals", "ranks", "tie_break", "tie_fields", "tie_resolution_ms", "joins",
     "score", "time_zone", "season", "windows"}
)  # fmt: skip
"""Policy fields that decide the ranks of a window; they are stored with it."""

_TODAYS: Final = frozenset({"board", "title", "writes", "velocity", "anomaly", "builds", "replay"})
"""Policy fields that a policy also needs, taken from today's."""

DECIDING_OF_ROLLUP: Final = frozenset(
    {"rollup", "order", "decimals", "ranks", "score", "time_zone", "season", "windows"}
)
"""The same of a rollup."""

_TODAYS_OF_ROLLUP: Final = frozenset({"board", "title", "writes"})
"""The same of a rollup, which is refused settings for runs."""


def ranking_of(archived: ArchivedWindow, today: Policy) -> Ranking:
    """Return the ranking of a window by the policy that it was frozen under."""
    fields = _TODAYS_OF_ROLLUP if today.rollup else _TODAYS
    todays = today.model_dump(include=set(fields), mode="json")
    return Ranking(Policy.model_validate_json(orjson.dumps(todays | orjson.loads(archived.policy))))
