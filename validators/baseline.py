"""What promoted scores teach: counts, moments and a window of the newest, so that a revoked score leaves no trace."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from policies.judging import PLAYER_RECENT, POPULATION_RECENT

POPULATION: Final = ""
"""Whose baseline is that of a whole board; no player id is empty."""

BUILD_PREFIX: Final = "@"
"""What the population of one build is called by begins with; no player id has it."""


def population_of(build: str) -> str:
    """Under which name the population of a build has its baseline."""
    return f"{BUILD_PREFIX}{build}"


def is_population(subject: str) -> bool:
    """True for the whole board and for a build, False for a player."""
    return subject == POPULATION or subject.startswith(BUILD_PREFIX)


def recent_of(subject: str) -> int:
    """How many of the newest scores the baseline of a subject keeps."""
    return POPULATION_RECENT if is_population(subject) else PLAYER_RECENT


def subjects_of(player: str, build: str) -> tuple[str, str, str]:
    """Whose baselines a promoted score is learnt in: its player's, its build's, and the whole board's."""
    return player, population_of(build), POPULATION


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a check is told of a set of promoted scores.

    Count, mean, and sum of squared deviations from the mean are of all of them: Welford's triple. (B. P. Welford, "Note
    on a Method for Calculating Corrected Sums of Squares and Products", Technometrics 4(3), 1962.) `scores` are the newest
    in the order in which they were achieved, `lowest` and `highest` the ends of all, None where there are none.
    """

    count: int
    mean: float
    squares: float
    scores: tuple[int, ...] = ()
    lowest: int | None = None
    highest: int | None = None

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


class PromotedScore(NamedTuple):
    """A promoted score: when it was achieved (Unix ms), and the number of its submission, which parts equal times."""

    at_ms: int
    seq: int
    score: int


class ScoreExtremes(NamedTuple):
    """The lowest and the highest of a set of scores; None where there are none."""

    lowest: int | None = None
    highest: int | None = None

    def plus(self, score: int) -> ScoreExtremes:
        """The ends with one more score."""
        if self.lowest is None or self.highest is None:
            return ScoreExtremes(score, score)
        return ScoreExtremes(min(self.lowest, score), max(self.highest, score))


NO_EXTREMES: Final = ScoreExtremes()


def extremes_of(parts: Iterable[ScoreExtremes]) -> ScoreExtremes:
    """The ends of several sets together."""
    ends = NO_EXTREMES
    for score in chain(*parts):
        ends = ends if score is None else ends.plus(score)
    return ends


@dataclass(frozen=True, slots=True)
class RunningBaseline:
    """A baseline as it is kept: what a promoted score is added to, and a revoked one taken out of.

    `recent` are the newest `size`, oldest first. After `minus` some of what is left may be unknown: then `has_gap` is
    True until `filled` was told.
    """

    size: int
    sums: Sums = Sums()
    recent: tuple[PromotedScore, ...] = ()
    ends: ScoreExtremes = NO_EXTREMES
    has_gap: bool = False

    def plus(self, scored: PromotedScore) -> RunningBaseline:
        """With one more promoted score, wherever in time it stands."""
        recent = list(self.recent)
        insort(recent, scored)
        sums, ends = self.sums.plus(scored.score), self.ends.plus(scored.score)
        return RunningBaseline(self.size, sums, tuple(recent[-self.size :]), ends, self.has_gap)

    def minus(self, scored: PromotedScore) -> RunningBaseline:
        """Without one of its scores."""
        sums = self.sums.minus(scored.score)
        recent = tuple(each for each in self.recent if each != scored)
        has_gap = self.has_gap or scored.score in self.ends or len(recent) < min(sums.count, self.size)
        return RunningBaseline(self.size, sums, recent, self.ends, has_gap)

    def filled(self, recent: Iterable[PromotedScore], ends: ScoreExtremes) -> RunningBaseline:
        """With the newest of what is promoted, in any order, and the ends of all of it."""
        return RunningBaseline(self.size, self.sums, tuple(sorted(recent)[-self.size :]), ends)

    @property
    def baseline(self) -> Baseline:
        """What a check is told of it."""
        moments = self.sums.baseline
        scores = tuple(each.score for each in self.recent)
        return Baseline(moments.count, moments.mean, moments.squares, scores, *self.ends)


def running_baseline_of(scores: Iterable[PromotedScore], size: int) -> RunningBaseline:
    """What these promoted scores teach, from nothing."""
    learnt = RunningBaseline(size)
    for each in sorted(scores):
        learnt = learnt.plus(each)
    return learnt
