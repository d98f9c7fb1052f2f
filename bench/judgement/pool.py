"""Real runs of the bundled game, by the skill of who played them: what all claims of the population are made from."""

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

from bench.replay import MODULE, Run
from examples.arcade.players import CHECKPOINT_TICKS, Arcade, play
from policies.vocabulary import Claim
from replay.recording import encode, pack_inputs

SUPERHUMAN: Final = 1.0
"""The skill of the headless player that reacts at once and never slips."""

BEST_HAND: Final = 0.95
"""The highest skill that a person is taken to have: a delay of six ticks, a tenth of a second."""

WORST_HAND: Final = 0.05

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Pool:
    """Runs, and the skill of each, in rising order of skill."""

    runs: tuple[Run, ...]
    skills: NDArray[np.float64]

    @cached_property
    def scores(self) -> NDArray[np.int64]:
        """The score of each run."""
        return np.array([run.claim.score for run in self.runs])

    @cached_property
    def levels(self) -> NDArray[np.float64]:
        """The skills there are runs of, without the superhuman one."""
        return np.unique(self.skills[self.skills <= BEST_HAND])

    @cached_property
    def superhuman(self) -> NDArray[np.intp]:
        """The runs that no person can have played."""
        return np.flatnonzero(self.skills == SUPERHUMAN)

    @cached_property
    def of_hands(self) -> NDArray[np.intp]:
        """The runs that a person can have played, in rising order of their score."""
        human = np.flatnonzero(self.skills <= BEST_HAND)
        return human[np.argsort(self.scores[human], kind="stable")]

    @cached_property
    def by_score(self) -> NDArray[np.intp]:
        """All runs, in rising order of their score."""
        return np.argsort(self.scores, kind="stable")

    def drawn(self, rng: np.random.Generator, skill: float) -> int:
        """A run of somebody of such skill: of one of the two levels next to it, the nearer the likelier."""
        if skill > BEST_HAND:
            return self._one_of(rng, SUPERHUMAN)
        place = float(np.interp(skill, self.levels, np.arange(self.levels.size)))
        level = int(place) + int(rng.random() < place % 1)
        return self._one_of(rng, float(self.levels[level]))

    def _one_of(self, rng: np.random.Generator, skill: float) -> int:
        first, last = np.searchsorted(self.skills, [skill, np.nextafter(skill, 2)])
        return int(rng.integers(first, last))

    def above(self, score: float) -> int:
        """The run with the lowest score that is at least so high; the best of all where none is."""
        place = int(np.searchsorted(self.scores[self.by_score], score))
        return int(self.by_score[min(place, self.by_score.size - 1)])


def pool_of(seed: int, *, levels: int, each: int, superhuman: int, processes: int = 1) -> Pool:
    """`each` runs of every one of `levels` skills of people, and some that no person plays; the same for the same seed."""
    skills = np.repeat(np.linspace(WORST_HAND, BEST_HAND, levels), each)
    skills = np.append(skills, np.repeat(SUPERHUMAN, superhuman))
    tasks = [(float(skill), seed * 1_000_003 + number) for number, skill in enumerate(skills)]
    return Pool(tuple(in_parallel(_played, tasks, processes)), skills)


def in_parallel(work: Callable[[Given], Made], given: Iterable[Given], processes: int) -> list[Made]:
    """What the work makes of each, in their order, whoever of so many processes did it."""
    if processes < 2:
        return [work(each) for each in given]
    with ProcessPoolExecutor(min(processes, os.cpu_count() or 1)) as pool:
        return list(pool.map(work, given, chunksize=16))


def _played(task: tuple[float, int]) -> Run:
    skill, seed = task
    played = play(_arcade(), seed, skill, random.Random(seed))
    inputs = pack_inputs(played.inputs)
    recording = encode(inputs, played.checkpoints, CHECKPOINT_TICKS)
    return Run(seed, Claim(played.score, played.ticks, played.stats), recording, inputs)


@lru_cache(maxsize=1)
def _arcade() -> Arcade:
    return Arcade(MODULE)
