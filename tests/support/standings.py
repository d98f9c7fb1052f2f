"""Standings for tests of the index, placed as the fold places them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gateway.shared_records import Standing
from policies.ranking import Ranking, ReachedScore
from policies.windows import window_named
from tests.support.policies import EXACT_LIMIT, a_ranking

RANKING = a_ranking()


def a_standing(
    player: str,
    score: int | None,
    at_ms: int = 1,
    seq: int = 1,
    ranking: Ranking = RANKING,
    stats: Mapping[str, int] = MappingProxyType({}),
    window: str = "alltime",
    **other: Any,
) -> Standing:
    """A player's standing on a board of this ranking; `score` None: nothing counts."""
    facts = {
        "achieved_seq": seq,
        "submission_id": f"s{seq}",
        "expires_at_ms": EXACT_LIMIT,
        "seq": seq,
    } | other
    order, member = 0, ""
    if score is not None:
        reached = ReachedScore(score, at_ms, seq, f"s{seq}", ranking.ties(stats))
        order, member = ranking.place(window_named(ranking.policy, window), player, reached)
    facts |= {"order": order, "member": member, "rule": ranking.rule}
    return Standing(ranking.policy.board, window, player, player.title(), score, at_ms, **facts)
