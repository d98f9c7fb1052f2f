"""Which of two scores is better on a board, and how a player's best went up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policies.fields import SortOrder
from policies.judging import Transform
from policies.model import Policy
from validators.baseline import Baseline
from validators.scale import all_on_scale


def is_better(score: int, other: int | None, policy: Policy) -> bool:
    """True if a score ranks before another; None is worse than any."""
    if other is None:
        return True
    return score < other if policy.order is SortOrder.ASCENDING else score > other


def best_of(known: Baseline, policy: Policy) -> int | None:
    """The best of all promoted scores; None where there are none."""
    return known.lowest if policy.order is SortOrder.ASCENDING else known.highest


def best_among(scores: tuple[int, ...], policy: Policy) -> int:
    """The best of some scores."""
    return min(scores) if policy.order is SortOrder.ASCENDING else max(scores)


def distances_of(policy: Policy) -> Transform:
    """The scale of distances between scores: ranks know none, so where scores are ranked, it is points."""
    transform = policy.anomaly.transform
    return Transform.NONE if transform is Transform.RANK else transform


def merits(scores: tuple[int, ...], policy: Policy) -> NDArray[np.float64]:
    """Scores on the policy's scale of distances, turned so that more is better."""
    values = all_on_scale(scores, distances_of(policy))
    return -values if policy.order is SortOrder.ASCENDING else values


def successive_bests(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those of a series of merits that were better than all before them."""
    reached = np.maximum.accumulate(values)
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = reached[1:] > reached[:-1]
    return values[is_new]
