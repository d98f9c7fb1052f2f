"""The courses of players, run by run: honest ones, and every kind of cheat in every strength."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from bench.judgement.hands import Style
from bench.judgement.pool import BEST_HAND, SUPERHUMAN, WORST_HAND, Pool

CHEATING_RUNS: Final = 10
"""Cheating runs of each account that cheats."""


class Turn(NamedTuple):
    """A run as its player decided on it. `factor` is the claim divided by the recording's score."""

    source: int
    is_cheat: bool
    factor: float = 1.0
    slowness: float = 1.0
    gave_up: int = -1
    style: Style = Style.HAND
    strength: float = 0.0
    change: str | None = None


Course = Callable[[np.random.Generator, Pool], Iterator[Turn]]


def _practice(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Return the skill in each of one person's runs."""
    begins = rng.beta(2.2, 2.0) * 0.8 + WORST_HAND
    ends = min(BEST_HAND, begins + rng.uniform(0.0, 0.25))
    return ends - (ends - begins) * np.arange(1, runs + 1) ** -0.4


def honest(rng: np.random.Generator, pool: Pool, runs: int = 0) -> Iterator[Turn]:
    """Yield a number of runs of one person; by default a random number, some 25 on average."""
    runs = runs or 1 + min(200, int(rng.lognormal(2.9, 0.8)))
    for skill in _practice(rng, runs):
        yield Turn(pool.drawn(rng, skill), is_cheat=False)


def _editor(rng: np.random.Generator, pool: Pool, factor: float) -> Iterator[Turn]:
    before = int(rng.integers(0, 20))
    for number, turn in enumerate(honest(rng, pool, before + CHEATING_RUNS)):
        yield turn if number < before else turn._replace(is_cheat=True, factor=factor)


def _smurf(rng: np.random.Generator, pool: Pool, *, is_human: bool) -> Iterator[Turn]:
    """Yield runs of a new account that is as good as the best from its first run."""
    best = pool.of_hands[-max(2, pool.of_hands.size // 100) :]
    for _ in range(CHEATING_RUNS):
        yield Turn(int(rng.choice(best)) if is_human else pool.drawn(rng, SUPERHUMAN), is_cheat=True)


def _frog(rng: np.random.Generator, pool: Pool, growth: float) -> Iterator[Turn]:
    """Yield some honest runs, then each a little better than the one before, with real recordings."""
    best = 0
    for turn in honest(rng, pool, int(rng.integers(8, 13))):
        best = max(best, int(pool.scores[turn.source]))
        yield turn
    for _ in range(CHEATING_RUNS):
        best = max(10, round(best * (1 + growth)))
        yield Turn(pool.above(best), is_cheat=True)


def _shopper(rng: np.random.Generator, pool: Pool, opened: int) -> Iterator[Turn]:
    """Yield runs that are the best of many opened ones."""
    for skill in _practice(rng, CHEATING_RUNS):
        drawn = [pool.drawn(rng, skill) for _ in range(opened)]
        yield Turn(max(drawn, key=lambda run: int(pool.scores[run])), is_cheat=True, gave_up=opened - 1)


def _bot(
    rng: np.random.Generator, pool: Pool, style: Style, skill: float, strength: float = 0.0
) -> Iterator[Turn]:
    for _ in range(CHEATING_RUNS):
        yield Turn(pool.drawn(rng, skill), is_cheat=True, style=style, strength=strength)


def _slow(rng: np.random.Generator, pool: Pool, factor: float, *, is_busy: bool = True) -> Iterator[Turn]:
    """Yield runs of a slowed game: more skill, and a faster hand in ticks if it is as busy as before."""
    before = int(rng.integers(0, 20))
    for number, skill in enumerate(_practice(rng, before + CHEATING_RUNS)):
        if number < before:
            yield Turn(pool.drawn(rng, skill), is_cheat=False)
        else:
            gained = min(BEST_HAND, skill + 0.12 * (factor - 1))
            yield Turn(pool.drawn(rng, gained), is_cheat=True, slowness=factor, strength=factor * is_busy)


def _thief(rng: np.random.Generator, pool: Pool, change: str) -> Iterator[Turn]:
    """Yield thefts of others' good runs. The victim is chosen later, among the runs that exist by then."""
    del rng, pool
    for _ in range(CHEATING_RUNS):
        yield Turn(-1, is_cheat=True, change=change)


STOLEN: Final = "stolen"
PROGRAM: Final = "bot, its inputs as they are"

COURSES: Final[dict[str, Course]] = {
    **{f"score edited, x {factor:g}": partial(_editor, factor=factor) for factor in (1.2, 1.5, 2, 4, 10)},
    "smurf, as good as the best hundredth": partial(_smurf, is_human=True),
    "smurf, better than any person": partial(_smurf, is_human=False),
    **{
        f"boiling frog, + {growth:.0%} a run".replace("%", " %"): partial(_frog, growth=growth)
        for growth in (0.03, 0.06, 0.12)
    },
    **{f"seed shopper, one run in {opened}": partial(_shopper, opened=opened) for opened in (10, 50, 200)},
    PROGRAM: partial(_bot, style=Style.PROGRAM, skill=SUPERHUMAN),
    "bot, a metronome": partial(_bot, style=Style.METRONOME, skill=0.9),
    "bot, a metronome that scatters by 10 %": partial(
        _bot, style=Style.METRONOME, skill=0.9, strength=0.1
    ),
    "bot, times drawn as a hand's": partial(_bot, style=Style.HAND, skill=0.9),
    **{f"slow motion, {factor:g} x": partial(_slow, factor=factor) for factor in (2, 3, 4)},
    "slow motion, 3 x, to think": partial(_slow, factor=3, is_busy=False),
    f"{STOLEN}, as it was": partial(_thief, change=""),
    **{
        f"{STOLEN}, {change}": partial(_thief, change=change)
        for change in (
            "a tick later", "an unused button pressed", "2 % edited", "5 % edited", "10 % edited",
            "a fifth cut off",
        )
    },
}  # fmt: skip
"""Every kind of cheat in every strength, by the name of its row."""
