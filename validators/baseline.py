"""Mean and spread of promoted scores, kept so exactly that a revoked score leaves no trace."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Baseline:
    """Count, mean, and sum of squared deviations from the mean of a set of scores: Welford's triple.

    (B. P. Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", Technometrics 4(3), 1962.)
    """

    count: int
    mean: float
    squares: float

    @property
    def spread(self) -> float:
        """The sample standard deviation; 0 below two scores."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0


EMPTY = Baseline(0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sums:
    """Count, sum, and sum of squares of a set of whole numbers.

    Exact, where Welford's recurrence run backwards would lose everything after one huge score: whole numbers of any
    size cost nothing here, and no score is ever rounded.
    """

    count: int = 0
    total: int = 0
    total_of_squares: int = 0

    def plus(self, score: int) -> Sums:
        """The sums with one more score."""
        return Sums(self.count + 1, self.total + score, self.total_of_squares + score * score)

    def minus(self, score: int) -> Sums:
        """The sums with one score less."""
        return Sums(self.count - 1, self.total - score, self.total_of_squares - score * score)

    @property
    def baseline(self) -> Baseline:
        """What they add up to, correctly rounded."""
        if not self.count:
            return EMPTY
        squares = (self.count * self.total_of_squares - self.total**2) / self.count
        return Baseline(self.count, self.total / self.count, squares)
