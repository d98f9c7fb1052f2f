"""Compares scores on a board, and follows how a player's best improved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.fields import SortOrder
from policies.judging import Transform
from policies.model import Policy
from validators.baseline import Baseline
from validators.scale import all_on_scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_better(score: int, other: int | None, policy: Policy) -> bool:
    """Return whether a score ranks before another. Every score is better than None."""
    if other is None:
        return True
    return score < other if policy.order is SortOrder.ASCENDING else score > other


def best_of(baseline: Baseline, policy: Policy) -> int | None:
    """Return the best of all promoted scores; None without any."""
    return baseline.lowest if policy.order is SortOrder.ASCENDING else baseline.highest


def best_among(scores: tuple[int, ...], policy: Policy) -> int:
    """Return the best of some scores."""
    return min(scores) if policy.order is SortOrder.ASCENDING else max(scores)


def distances_of(policy: Policy) -> Transform:
    """Return the scale of distances between scores: points where scores are compared by rank."""
    transform = policy.anomaly.transform
    return Transform.NONE if transform is Transform.RANK else transform


def merits(scores: tuple[int, ...], policy: Policy) -> NDArray[np.float64]:
    """Return scores on the policy's scale of distances, with the sign that makes higher values better."""
    values = all_on_scale(scores, distances_of(policy))
    return -values if policy.order is SortOrder.ASCENDING else values


def successive_bests(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the merits of a series that were better than all before them."""
    import numpy as np  # noqa: PLC0415 - loads slowly, and many an edge judges without it

    reached = np.maximum.accumulate(values)
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = reached[1:] > reached[:-1]
    return values[is_new]
