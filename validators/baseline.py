"""Running mean and spread of promoted scores, exactly reversible so that a revoked score leaves no trace."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Baseline:
    """Count, mean, and sum of squared deviations from the mean of a set of scores.

    Updated by Welford's recurrence (B. P. Welford, "Note on a Method for Calculating Corrected Sums of Squares and
    Products", Technometrics 4(3), 1962), which stays accurate where a sum of squares would cancel.
    """

    count: int
    mean: float
    squares: float

    def with_score(self, score: int) -> Baseline:
        """The baseline after one more score."""
        count = self.count + 1
        delta = score - self.mean
        mean = self.mean + delta / count
        return Baseline(count, mean, self.squares + delta * (score - mean))

    def without_score(self, score: int) -> Baseline:
        """The baseline as if `score` had never been in it; the recurrence run backwards."""
        if self.count <= 1:
            return EMPTY
        count = self.count - 1
        mean = (self.mean * self.count - score) / count
        squares = self.squares - (score - self.mean) * (score - mean)
        return Baseline(count, mean, max(squares, 0.0))

    @property
    def spread(self) -> float:
        """The sample standard deviation; 0 below two scores."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0


EMPTY = Baseline(0, 0.0, 0.0)
