"""Can this board hold such a score at all? The one check whose failure the client is told."""

from __future__ import annotations

from collections.abc import Mapping

from policies.model import Policy
from policies.vocabulary import Claim


def is_score_possible(score: int, policy: Policy) -> bool:
    """True if the score lies in [minimum, maximum], on the grid that starts at `minimum` with spacing `step`."""
    bounds = policy.score
    return bounds.minimum <= score <= bounds.maximum and (score - bounds.minimum) % bounds.step == 0


def is_within_bounds(claim: Claim, policy: Policy) -> bool:
    """True if score, ticks and stats could come out of this game; says nothing of whether they did."""
    return is_score_possible(claim.score, policy) and _is_playable(claim, policy)


def _is_playable(claim: Claim, policy: Policy) -> bool:
    replay = policy.replay
    if replay is None:
        return claim.ticks >= 0
    return 1 <= claim.ticks <= replay.maximum_ticks and _has_exactly(claim.stats, replay.stats)


def _has_exactly(stats: Mapping[str, int], names: tuple[str, ...]) -> bool:
    return len(stats) == len(names) and all(name in stats for name in names)
