"""Real runs of the bundled game by skill, from which all claims of the population are made."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.replay import MODULE, RecordedRun
from examples.arcade.players import CHECKPOINT_TICKS, Arcade, play
from policies.vocabulary import Claim
from replay.recording import encode, pack_inputs

SUPERHUMAN: Final = 1.0
"""The skill of the headless player that reacts at once and never slips."""

BEST_HAND: Final = 0.95
"""The highest skill of a person: a delay of six ticks, a tenth of a second."""

WORST_HAND: Final = 0.05

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Pool:
    """Runs and their skills, in rising order of skill."""

    runs: tuple[RecordedRun, ...]
    skills: NDArray[np.float64]

    @cached_property
    def scores(self) -> NDArray[np.int64]:
        """Return the score of each run."""
        return np.array([run.claim.score for run in self.runs])

    @cached_property
    def levels(self) -> NDArray[np.float64]:
        """Return the skills of the runs, without the superhuman one."""
        return np.unique(self.skills[self.skills <= BEST_HAND])

    @cached_property
    def superhuman(self) -> NDArray[np.intp]:
        """Return the runs that no person can have played."""
        return np.flatnonzero(self.skills == SUPERHUMAN)

    @cached_property
    def of_hands(self) -> NDArray[np.intp]:
        """Return the runs that a person can have played, in rising order of score."""
        human = np.flatnonzero(self.skills <= BEST_HAND)
        return human[np.argsort(self.scores[human], kind="stable")]

    @cached_property
    def by_score(self) -> NDArray[np.intp]:
        """Return all runs, in rising order of score."""
        return np.argsort(self.scores, kind="stable")

    def drawn(self, rng: np.random.Generator, skill: float) -> int:
        """Draw a run of a skill, from one of the two nearest levels; the nearer is likelier."""
        if skill > BEST_HAND:
            return self._one_of(rng, SUPERHUMAN)
        place = float(np.interp(skill, self.levels, np.arange(self.levels.size)))
        level = int(place) + int(rng.random() < place % 1)
        return self._one_of(rng, float(self.levels[level]))

    def _one_of(self, rng: np.random.Generator, skill: float) -> int:
        first, last = np.searchsorted(self.skills, [skill, np.nextafter(skill, 2)])
        return int(rng.integers(first, last))

    def above(self, score: float) -> int:
        """Return the run with the lowest score that is not below `score`, or else the best run."""
        place = int(np.searchsorted(self.scores[self.by_score], score))
        return int(self.by_score[min(place, self.by_score.size - 1)])


def pool_of(seed: int, *, levels: int, runs_per_level: int, superhuman: int, processes: int = 1) -> Pool:
    """Play runs at each of `levels` human skills, and superhuman ones, the same for a seed."""
    skills = np.repeat(np.linspace(WORST_HAND, BEST_HAND, levels), runs_per_level)
    skills = np.append(skills, np.repeat(SUPERHUMAN, superhuman))
    tasks = [(float(skill), seed * 1_000_003 + number) for number, skill in enumerate(skills)]
    return Pool(tuple(in_parallel(_played, tasks, processes)), skills)


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item], processes: int) -> list[Result]:
    """Return the result of `work` for each item, in their order, computed by a number of processes."""
    if processes < 2:
        return [work(item) for item in items]
    with ProcessPoolExecutor(min(processes, os.cpu_count() or 1)) as pool:
        return list(pool.map(work, items, chunksize=16))


def _played(task: tuple[float, int]) -> RecordedRun:
    skill, seed = task
    played = play(_arcade(), seed, skill, random.Random(seed))
    inputs = pack_inputs(played.inputs)
    recording = encode(inputs, played.checkpoints, CHECKPOINT_TICKS)
    return RecordedRun(seed, Claim(played.score, played.ticks, played.stats), recording, inputs)


@lru_cache(maxsize=1)
def _arcade() -> Arcade:
    return Arcade(MODULE)
