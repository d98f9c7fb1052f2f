"""The scale on which a policy compares scores, and robust measures of a sample's middle, in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.judging import Transform
from validators.baseline import Baseline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NORMAL_MAD: Final = 0.6745
"""The median absolute deviation of a standard normal distribution: its third quartile, Φ⁻¹(0.75)."""

_SMALL_SAMPLES: Final = (1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
"""Factors by which the MAD of so many normal values is too small: C. Croux and P. J. Rousseeuw,
"Time-Efficient Algorithms for Two Highly Robust Estimators of Scale", Computational Statistics 1, 1992. Above
nine values: n / (n - 0.8)."""


class Middle(NamedTuple):
    """The centre and spread of a sample, on the scale of its values."""

    centre: float
    spread: float

    def floored(self, floor: float, transform: Transform) -> Middle:
        """Return this middle with a spread of at least `floor` points, measured upwards from the centre."""
        return Middle(self.centre, max(self.spread, step_on_scale(floor, self.centre, transform)))

    def deviation(self, score: float, transform: Transform) -> float:
        """Return how many spreads above the centre a score is."""
        return (on_scale(score, transform) - self.centre) / self.spread

    def points_at(self, deviation: float, transform: Transform) -> float:
        """Return the score that is so many spreads above the centre."""
        value = self.centre + deviation * self.spread
        if transform is not Transform.LOG:
            return value
        return math.expm1(min(value, 700.0))  # beyond that a double overflows


def on_scale(score: float, transform: Transform) -> float:
    """Return a score on the scale. The logarithm is that of one point more, so that 0 has one.

    A score below 0 is placed at 0. The policy allows none, but claims and earlier scores may be negative.
    """
    return math.log1p(max(score, 0)) if transform is Transform.LOG else float(score)


def step_on_scale(points: float, at: float, transform: Transform) -> float:
    """Return the length of a step up of so many points, from a value on the scale."""
    return math.log1p(points / math.exp(at)) if transform is Transform.LOG else points


def all_on_scale(scores: Sequence[int], transform: Transform) -> NDArray[np.float64]:
    """Return scores on the scale, in their order."""
    import numpy as np  # noqa: PLC0415 - loads slowly, and many an edge judges without it

    values = np.array(scores, dtype=np.float64)
    return np.log1p(np.maximum(values, 0)) if transform is Transform.LOG else values


def middle_of(baseline: Baseline, transform: Transform) -> Middle:
    """Return median and MAD of a baseline's newest scores; mean and deviation of all if the MAD is 0."""
    robust = robust_middle(baseline.scores, transform)
    return robust if robust.spread > 0 else middle_of_moments(baseline.mean, baseline.spread, transform)


@lru_cache(maxsize=1024)
def robust_middle(scores: tuple[int, ...], transform: Transform) -> Middle:
    """Return the median, and the MAD scaled to a standard deviation; 0 and 0 without scores.

    Dividing by it gives the modified z-score of B. Iglewicz and D. C. Hoaglin, "How to Detect and Handle
    Outliers", ASQC Basic References in Quality Control 16, 1993: 0.6745 (x - median) / MAD, usually with 3.5
    as the threshold.
    """
    return middle_of_values(all_on_scale(scores, transform)) if scores else Middle(0.0, 0.0)


def middle_of_values(values: NDArray[np.float64]) -> Middle:
    """Return the same for values on a scale, at least one."""
    import numpy as np  # noqa: PLC0415 - loads slowly, and many an edge judges without it

    values, count = np.sort(values), len(values)
    centre = _median(values)
    deviation = _median(np.sort(np.abs(values - centre)))
    factor = _SMALL_SAMPLES[count] if count < len(_SMALL_SAMPLES) else count / (count - 0.8)
    return Middle(centre, deviation * factor / NORMAL_MAD)


def middle_of_moments(mean: float, spread: float, transform: Transform) -> Middle:
    """Return mean and standard deviation of scores, on the scale.

    For logarithms, they are those of the lognormal distribution with these moments: J. Aitchison and J. A. C.
    Brown, "The Lognormal Distribution", 1957, §2.3.
    """
    if transform is not Transform.LOG:
        return Middle(mean, spread)
    mean = max(mean, 0.0)
    variance = math.log1p((spread / (1 + mean)) ** 2)
    return Middle(math.log1p(mean) - variance / 2, math.sqrt(variance))


def _median(ordered: NDArray[np.float64]) -> float:
    half = len(ordered) // 2  # np.median takes five times as long on so few values
    return float(ordered[half] + ordered[~half]) / 2
