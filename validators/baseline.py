"""Baselines of promoted scores: counts, moments and newest scores; a revoked score leaves no trace."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from policies.judging import PLAYER_RECENT, POPULATION_RECENT

POPULATION: Final = ""
"""The subject of a whole board's baseline; no player id is empty."""

BUILD_PREFIX: Final = "@"
"""The prefix of the subject of a build's population; no player id begins with it."""


def population_of(build: str) -> str:
    """Return the subject under which a build's population has its baseline."""
    return f"{BUILD_PREFIX}{build}"


def is_population(subject: str) -> bool:
    """Return whether a subject is the whole board or a build, and not a player."""
    return subject == POPULATION or subject.startswith(BUILD_PREFIX)


def recent_of(subject: str) -> int:
    """Return how many of the newest scores a subject's baseline keeps."""
    return POPULATION_RECENT if is_population(subject) else PLAYER_RECENT


def subjects_of(player: str, build: str) -> tuple[str, str, str]:
    """Return the subjects whose baselines learn a promoted score: its player, its build, and the board."""
    return player, population_of(build), POPULATION


@dataclass(frozen=True, slots=True)
class Baseline:
    """A summary of a set of promoted scores, as validators see it.

    Count, mean, and sum of squared deviations from the mean cover the whole set: Welford's triple (B. P.
    Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products", Technometrics 4(3),
    1962). `scores` are the newest, oldest first. `lowest` and `highest` are the extremes of all, None without
    any.
    """

    count: int
    mean: float
    squares: float
    scores: tuple[int, ...] = ()
    lowest: int | None = None
    highest: int | None = None

    @property
    def spread(self) -> float:
        """Return the sample standard deviation; 0 below two scores."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0


EMPTY = Baseline(0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sums:
    """Count, sum, and sum of squares of a set of integers.

    They are exact. Welford's recurrence run backwards would lose all precision after one huge score; Python's
    integers cost nothing here and never round.
    """

    count: int = 0
    total: int = 0
    total_of_squares: int = 0

    def plus(self, score: int) -> Sums:
        """Return the sums with one more score."""
        return Sums(self.count + 1, self.total + score, self.total_of_squares + score * score)

    def minus(self, score: int) -> Sums:
        """Return the sums with one score less."""
        return Sums(self.count - 1, self.total - score, self.total_of_squares - score * score)

    @property
    def baseline(self) -> Baseline:
        """Return the baseline of these sums, correctly rounded."""
        return Baseline(self.count, *moments_of(self.count, self.total, self.total_of_squares))


def moments_of(count: int, total: int, total_of_squares: int) -> tuple[float, float]:
    """Return the mean of a set of integers and the sum of squared deviations from it, correctly rounded."""
    if not count:
        return 0.0, 0.0
    return total / count, (count * total_of_squares - total**2) / count


class PromotedScore(NamedTuple):
    """A promoted score: its time (Unix ms), and its submission's number, which orders equal times."""

    at_ms: int
    seq: int
    score: int


class ScoreExtremes(NamedTuple):
    """The lowest and highest of a set of scores; None without any."""

    lowest: int | None = None
    highest: int | None = None

    def plus(self, score: int) -> ScoreExtremes:
        """Return the extremes with one more score."""
        if self.lowest is None or self.highest is None:
            return ScoreExtremes(score, score)
        return ScoreExtremes(min(self.lowest, score), max(self.highest, score))


NO_EXTREMES: Final = ScoreExtremes()


def extremes_of(parts: Iterable[ScoreExtremes]) -> ScoreExtremes:
    """Return the extremes of several sets together."""
    ends = NO_EXTREMES
    for score in chain(*parts):
        ends = ends if score is None else ends.plus(score)
    return ends


@dataclass(frozen=True, slots=True)
class RunningBaseline:
    """A baseline that promoted scores are added to, and revoked ones removed from.

    `recent` are the newest `size` scores, oldest first. After `minus` some of the rest may be unknown; then
    `has_gap` is True until `filled` supplies them.
    """

    size: int
    sums: Sums = Sums()
    recent: tuple[PromotedScore, ...] = ()
    ends: ScoreExtremes = NO_EXTREMES
    has_gap: bool = False

    def plus(self, scored: PromotedScore) -> RunningBaseline:
        """Return the baseline with one more promoted score, wherever in time it belongs."""
        recent = list(self.recent)
        insort(recent, scored)
        sums, ends = self.sums.plus(scored.score), self.ends.plus(scored.score)
        return RunningBaseline(self.size, sums, tuple(recent[-self.size :]), ends, self.has_gap)

    def minus(self, scored: PromotedScore) -> RunningBaseline:
        """Return the baseline without one of its scores."""
        sums = self.sums.minus(scored.score)
        recent = tuple(score for score in self.recent if score != scored)
        has_gap = self.has_gap or scored.score in self.ends or len(recent) < min(sums.count, self.size)
        return RunningBaseline(self.size, sums, recent, self.ends, has_gap)

    def filled(self, recent: Iterable[PromotedScore], ends: ScoreExtremes) -> RunningBaseline:
        """Return the baseline with the newest promoted scores, in any order, and the extremes of all."""
        return RunningBaseline(self.size, self.sums, tuple(sorted(recent)[-self.size :]), ends)

    @property
    def baseline(self) -> Baseline:
        """Return the summary that validators see."""
        moments = self.sums.baseline
        scores = tuple(scored.score for scored in self.recent)
        return Baseline(moments.count, moments.mean, moments.squares, scores, *self.ends)


def running_baseline_of(scores: Iterable[PromotedScore], size: int) -> RunningBaseline:
    """Return the running baseline of these promoted scores."""
    baseline = RunningBaseline(size)
    for scored in sorted(scores):
        baseline = baseline.plus(scored)
    return baseline
