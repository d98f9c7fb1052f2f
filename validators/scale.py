"""The scale that a policy compares scores on, and where the middle of a sample of them is: robust, in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policies.judging import Transform
from validators.baseline import Baseline

NORMAL_MAD: Final = 0.6745
"""The median absolute deviation of a normal distribution of standard deviation 1: the third quartile, Φ⁻¹(0.75)."""

_SMALL_SAMPLES: Final = (1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
"""By how much the MAD of so many normal values comes out too small: C. Croux and P. J. Rousseeuw, "Time-Efficient
Algorithms for Two Highly Robust Estimators of Scale", Computational Statistics 1, 1992. Above nine: n / (n - 0.8)."""


class Middle(NamedTuple):
    """Centre and spread of a sample, on the scale it was taken on."""

    centre: float
    spread: float

    def floored(self, floor: float, transform: Transform) -> Middle:
        """With a spread of at least `floor` points, reckoned upwards from the centre."""
        return Middle(self.centre, max(self.spread, step_on_scale(floor, self.centre, transform)))

    def deviation(self, score: float, transform: Transform) -> float:
        """How many spreads above the centre a score is."""
        return (on_scale(score, transform) - self.centre) / self.spread

    def points_at(self, deviation: float, transform: Transform) -> float:
        """The score that is so many spreads above the centre."""
        value = self.centre + deviation * self.spread
        if transform is not Transform.LOG:
            return value
        return math.expm1(min(value, 700.0))  # beyond, a double ends


def on_scale(score: float, transform: Transform) -> float:
    """One score on the scale: its logarithm is that of one point more, so that 0 has one.

    A score below 0 has the place of 0 there. The policy has none, but a claim may, and so may what came before it.
    """
    return math.log1p(max(score, 0)) if transform is Transform.LOG else float(score)


def step_on_scale(points: float, at: float, transform: Transform) -> float:
    """How long a step up of so many points is, from a value on the scale."""
    return math.log1p(points / math.exp(at)) if transform is Transform.LOG else points


def all_on_scale(scores: Sequence[int], transform: Transform) -> NDArray[np.float64]:
    """Scores on the scale, in their order."""
    values = np.array(scores, dtype=np.float64)
    return np.log1p(np.maximum(values, 0)) if transform is Transform.LOG else values


def middle_of(known: Baseline, transform: Transform) -> Middle:
    """Median and MAD of the newest scores of a baseline; mean and standard deviation of all where the MAD is 0."""
    robust = robust_middle(known.scores, transform)
    return robust if robust.spread > 0 else middle_of_moments(known.mean, known.spread, transform)


@lru_cache(maxsize=1024)
def robust_middle(scores: tuple[int, ...], transform: Transform) -> Middle:
    """Median and median absolute deviation, the latter as the standard deviation that it stands for; 0 and 0 of nothing.

    What divides by it is the modified z-score of B. Iglewicz and D. C. Hoaglin, "How to Detect and Handle Outliers",
    ASQC Basic References in Quality Control 16, 1993: 0.6745 (x - median) / MAD, with 3.5 as the usual threshold.
    """
    return middle_of_values(all_on_scale(scores, transform)) if scores else Middle(0.0, 0.0)


def middle_of_values(values: NDArray[np.float64]) -> Middle:
    """The same of values on a scale, of which there is one at least."""
    values, count = np.sort(values), len(values)
    centre = _median(values)
    deviation = _median(np.sort(np.abs(values - centre)))
    factor = _SMALL_SAMPLES[count] if count < len(_SMALL_SAMPLES) else count / (count - 0.8)
    return Middle(centre, deviation * factor / NORMAL_MAD)


def middle_of_moments(mean: float, spread: float, transform: Transform) -> Middle:
    """Mean and standard deviation of scores, on the scale.

    For logarithms those of the lognormal distribution that has these two: J. Aitchison and J. A. C. Brown, "The
    Lognormal Distribution", 1957, §2.3.
    """
    if transform is not Transform.LOG:
        return Middle(mean, spread)
    mean = max(mean, 0.0)
    variance = math.log1p((spread / (1 + mean)) ** 2)
    return Middle(math.log1p(mean) - variance / 2, math.sqrt(variance))


def _median(ordered: NDArray[np.float64]) -> float:
    half = len(ordered) // 2  # np.median takes five times as long on so few
    return float(ordered[half] + ordered[~half]) / 2
